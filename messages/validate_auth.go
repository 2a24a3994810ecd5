package messages

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// PasswordScheme begins the hash of a password.
const PasswordScheme = "pbkdf2-sha256"

// ParsePasswordHash takes the hash of a password apart.
func ParsePasswordHash(text string) (rounds int, salt, hash []byte, ok bool) {
	parts := strings.Split(text, "$")
	if len(text) > PasswordHashBytesMax || len(parts) != 4 || parts[0] != PasswordScheme {
		return 0, nil, nil, false
	}
	rounds, err := strconv.Atoi(parts[1])
	if err != nil || rounds < PasswordRoundsMin || rounds > PasswordRoundsMax || strconv.Itoa(rounds) != parts[1] {
		return 0, nil, nil, false
	}
	salt, saltErr := base64.RawStdEncoding.DecodeString(parts[2])
	hash, hashErr := base64.RawStdEncoding.DecodeString(parts[3])
	if saltErr != nil || hashErr != nil || len(salt) < 8 || len(hash) != 32 {
		return 0, nil, nil, false
	}
	return rounds, salt, hash, true
}

// validateChangeAuth checks the form of a change of who may do what.
func validateChangeAuth(c *ChangeAuth) *Error {
	switch x := c.GetChange().(type) {
	case *ChangeAuth_Enable:
		return validateTokenKey(x.Enable.GetTokenKey())
	case *ChangeAuth_Disable:
		return nil
	case *ChangeAuth_AddUser:
		if err := validateUserName("name", x.AddUser.GetName()); err != nil {
			return err
		}
		if n := len(x.AddUser.GetRoles()); n > RolesPerUserMax {
			return InvalidField("roles", "%d roles, at most %d", n, RolesPerUserMax).WithLimit(RolesPerUserMax)
		}
		for _, role := range x.AddUser.GetRoles() {
			if err := validateUserName("roles", role); err != nil {
				return err
			}
		}
		return validatePasswordHash(x.AddUser.GetPasswordHash())
	case *ChangeAuth_DeleteUser:
		return validateUserName("name", x.DeleteUser.GetName())
	case *ChangeAuth_SetPassword:
		if err := validateUserName("name", x.SetPassword.GetName()); err != nil {
			return err
		}
		return validatePasswordHash(x.SetPassword.GetPasswordHash())
	case *ChangeAuth_GrantRole:
		if err := validateUserName("user", x.GrantRole.GetUser()); err != nil {
			return err
		}
		return validateUserName("role", x.GrantRole.GetRole())
	case *ChangeAuth_RevokeRole:
		if err := validateUserName("user", x.RevokeRole.GetUser()); err != nil {
			return err
		}
		return validateUserName("role", x.RevokeRole.GetRole())
	case *ChangeAuth_AddRole:
		return validateRoleName("name", x.AddRole.GetName())
	case *ChangeAuth_DeleteRole:
		return validateRoleName("name", x.DeleteRole.GetName())
	case *ChangeAuth_GrantRights:
		if err := validateRoleName("role", x.GrantRights.GetRole()); err != nil {
			return err
		}
		return validateGrant(x.GrantRights.GetGrant())
	case *ChangeAuth_RevokeRights:
		if err := validateRoleName("role", x.RevokeRights.GetRole()); err != nil {
			return err
		}
		return within("grant", ValidateSelector("selector", x.RevokeRights.GetGrant().GetSelector()))
	case *ChangeAuth_RevokeTokens:
		if x.RevokeTokens.GetUser() != "" {
			return validateUserName("user", x.RevokeTokens.GetUser())
		}
		return validateTokenKey(x.RevokeTokens.GetTokenKey())
	}
	return NewError(Code_CODE_UNSUPPORTED, "unknown or missing change").WithField("change")
}

// validateTokenKey allows none too: that is what clients send.
func validateTokenKey(key []byte) *Error {
	if n := len(key); n != 0 && n != TokenKeyBytes {
		return InvalidField("token_key", "%d bytes, not %d", n, TokenKeyBytes)
	}
	return nil
}

// validateUserName refuses what could not be printed on one line, or typed.
func validateUserName(field, name string) *Error {
	if n := len(name); n == 0 || n > UserNameBytesMax {
		return badLength(field, n, UserNameBytesMax)
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7F }) {
		return InvalidField(field, "control characters are not allowed")
	}
	return nil
}

func validateRoleName(field, name string) *Error {
	if name == RootRole {
		return InvalidField(field, "the role %s is built in and never changes", RootRole)
	}
	return validateUserName(field, name)
}

func validatePasswordHash(hash string) *Error {
	if hash == "" {
		return nil
	}
	if _, _, _, ok := ParsePasswordHash(hash); !ok {
		return InvalidField("password_hash", "not of the form %s$ROUNDS$SALT$HASH with %d to %d rounds",
			PasswordScheme, PasswordRoundsMin, PasswordRoundsMax)
	}
	return nil
}

func validateGrant(g *Grant) *Error {
	if !g.GetRead() && !g.GetWrite() && !g.GetLease() && !g.GetAdmin() {
		return InvalidField("grant", "one of read, write, lease and admin is needed")
	}
	if err := within("grant", ValidateSelector("selector", g.GetSelector())); err != nil {
		return err
	}
	if by, every := g.GetSelector().GetBy().(*Selector_Prefix); g.GetAdmin() && (!every || len(by.Prefix) > 0) {
		return InvalidField("grant.selector", "admin is not about keys: it needs the empty prefix")
	}
	return nil
}

// ValidateAudit checks what goes with a command that leaves an audit record; nil is
// valid.
func ValidateAudit(a *AuditContext) *Error {
	if n := len(a.GetAction()); a != nil && n == 0 || n > AuditActionBytesMax {
		return badLength("audit.action", n, AuditActionBytesMax)
	}
	if n := len(a.GetDetail()); n > AuditDetailBytesMax {
		return tooLong("audit.detail", n, AuditDetailBytesMax)
	}
	if n := len(a.GetAddress()); n > AuditDetailBytesMax {
		return tooLong("audit.address", n, AuditDetailBytesMax)
	}
	return nil
}

// ValidateCredentials checks the form of credentials: exactly one kind of them.
func ValidateCredentials(c *Credentials) *Error {
	kinds := 0
	for _, given := range []bool{c.GetToken() != "", c.GetUser() != "" || c.GetPassword() != "", len(c.GetRecovery()) > 0} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return InvalidField("credentials", "one of a token, a password and a recovery secret is needed")
	case len(c.GetToken()) > TokenBytesMax:
		return tooLong("credentials.token", len(c.GetToken()), TokenBytesMax)
	case c.GetUser() == "" && c.GetPassword() != "":
		return InvalidField("credentials.user", "must not be empty")
	case len(c.GetUser()) > UserNameBytesMax:
		return tooLong("credentials.user", len(c.GetUser()), UserNameBytesMax)
	case len(c.GetPassword()) > PasswordBytesMax:
		return tooLong("credentials.password", len(c.GetPassword()), PasswordBytesMax)
	case len(c.GetRecovery()) > PasswordBytesMax:
		return tooLong("credentials.recovery", len(c.GetRecovery()), PasswordBytesMax)
	}
	return nil
}

// ValidateTokenRequest checks the form of a request for a token.
func ValidateTokenRequest(r *TokenRequest) *Error {
	if len(r.GetUser()) > UserNameBytesMax {
		return tooLong("user", len(r.GetUser()), UserNameBytesMax)
	}
	if ttl := r.GetTtlMs(); ttl != 0 && (ttl < TokenTTLMinMs || ttl > TokenTTLMaxMs) {
		return InvalidField("ttl_ms", "%d is not within %d and %d", ttl, TokenTTLMinMs, int64(TokenTTLMaxMs)).WithLimit(TokenTTLMaxMs)
	}
	return nil
}

// SameSelector reports whether two selectors are the same.
func SameSelector(a, b *Selector) bool {
	switch x := a.GetBy().(type) {
	case *Selector_Key:
		y, ok := b.GetBy().(*Selector_Key)
		return ok && bytes.Equal(x.Key, y.Key)
	case *Selector_Prefix:
		y, ok := b.GetBy().(*Selector_Prefix)
		return ok && bytes.Equal(x.Prefix, y.Prefix)
	case *Selector_Range:
		y, ok := b.GetBy().(*Selector_Range)
		return ok && bytes.Equal(x.Range.GetStart(), y.Range.GetStart()) && bytes.Equal(x.Range.GetEnd(), y.Range.GetEnd())
	}
	return b.GetBy() == nil
}
