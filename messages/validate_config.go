package messages

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// configBounds are the smallest and the largest value of each number of
// ClusterConfig. A bound that would let an operator lock everybody out, or a
// replica run out of memory in one command, is refused by name.
var configBounds = map[protoreflect.Name][2]int64{
	"value_bytes_max":           {1, ValueBytesCeiling},
	"leases_max":                {1, 10_000_000},
	"lease_keys_max":            {1, CommandKeysMax},
	"lease_ttl_min_ms":          {LeaseTTLFloorMs, LeaseTTLMaxMs},
	"lease_ttl_max_ms":          {LeaseTTLFloorMs, LeaseTTLMaxMs},
	"retention_revisions":       {1, RevisionMax},
	"retention_ms":              {1_000, LeaseTTLMaxMs},
	"consumer_lag_max":          {1, RevisionMax},
	"quota_bytes":               {1 << 20, 1 << 50},
	"idempotency_entries_max":   {1, 10_000_000},
	"idempotency_age_ms":        {1_000, 7 * 24 * 3_600_000},
	"sessions_max":              {1, 10_000_000},
	"session_answers_max":       {1, 65_536},
	"cursors_max":               {1, 1_000_000},
	"indexes_max":               {0, 1_024},
	"index_entries_per_key_max": {1, 65_536},
	"audit_records_max":         {0, 1_000_000},
	"audit_age_ms":              {0, LeaseTTLMaxMs},
	"user_leases_max":           {0, 10_000_000},
}

// ValidateConfig checks a whole configuration.
func ValidateConfig(c *ClusterConfig) *Error {
	if c == nil {
		return InvalidField("config", "missing")
	}
	m := c.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if err := validateConfigField(m, fields.Get(i)); err != nil {
			return err
		}
	}
	if c.LeaseTtlMinMs > c.LeaseTtlMaxMs {
		return InvalidField("config.lease_ttl_min_ms", "%d is above lease_ttl_max_ms %d", c.LeaseTtlMinMs, c.LeaseTtlMaxMs)
	}
	return nil
}

func validateSetConfig(s *SetConfig) *Error {
	if len(s.GetFields()) == 0 {
		return InvalidField("fields", "must not be empty")
	}
	m := s.GetConfig().ProtoReflect()
	if !m.IsValid() {
		return InvalidField("config", "missing")
	}
	fields := m.Descriptor().Fields()
	for i, name := range s.Fields {
		fd := fields.ByName(protoreflect.Name(name))
		if fd == nil {
			return InvalidField(fmt.Sprintf("fields[%d]", i), "no setting is called %q", name)
		}
		if err := validateConfigField(m, fd); err != nil {
			return err
		}
	}
	return nil
}

func validateConfigField(m protoreflect.Message, fd protoreflect.FieldDescriptor) *Error {
	field := "config." + string(fd.Name())
	if fd.IsList() {
		list := m.Get(fd).List()
		if n := list.Len(); n > ProtectedPrefixMax {
			return InvalidField(field, "%d prefixes, at most %d", n, ProtectedPrefixMax).WithLimit(ProtectedPrefixMax)
		}
		for i := range list.Len() {
			p := list.Get(i).Message().Interface().(*ProtectedPrefix)
			if n := len(p.Prefix); n == 0 || n > KeyBytesMax {
				return badLength(fmt.Sprintf("%s[%d].prefix", field, i), n, KeyBytesMax)
			}
		}
		return nil
	}
	bounds, ok := configBounds[fd.Name()]
	if !ok {
		return nil
	}
	v := m.Get(fd)
	if fd.Kind() == protoreflect.Int64Kind {
		if n := v.Int(); n < bounds[0] || n > bounds[1] {
			return InvalidField(field, "%d is not within %d and %d", n, bounds[0], bounds[1])
		}
		return nil
	}
	if n := v.Uint(); n < uint64(bounds[0]) || n > uint64(bounds[1]) {
		return InvalidField(field, "%d is not within %d and %d", n, bounds[0], bounds[1])
	}
	return nil
}

// ApplyConfig copies the named fields of s into c. Both are valid.
func ApplyConfig(c *ClusterConfig, s *SetConfig) {
	dst, src := c.ProtoReflect(), s.GetConfig().ProtoReflect()
	for _, name := range s.GetFields() {
		fd := dst.Descriptor().Fields().ByName(protoreflect.Name(name))
		if src.Has(fd) {
			dst.Set(fd, src.Get(fd))
		} else {
			dst.Clear(fd)
		}
	}
}
