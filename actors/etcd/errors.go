package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/concord-kv/concord/messages"
)

// refusals are our codes in etcd's words.
var refusals = map[messages.Code]error{
	messages.Code_CODE_TOO_LARGE:         rpctypes.ErrGRPCRequestTooLarge,
	messages.Code_CODE_KEY_NOT_FOUND:     rpctypes.ErrGRPCKeyNotFound,
	messages.Code_CODE_COMPACTED:         rpctypes.ErrGRPCCompacted,
	messages.Code_CODE_FUTURE_REVISION:   rpctypes.ErrGRPCFutureRev,
	messages.Code_CODE_TOO_MANY_KEYS:     rpctypes.ErrGRPCTooManyOps,
	messages.Code_CODE_NO_SPACE:          rpctypes.ErrGRPCNoSpace,
	messages.Code_CODE_LEASE_NOT_FOUND:   rpctypes.ErrGRPCLeaseNotFound,
	messages.Code_CODE_UNKNOWN_LEASE:     rpctypes.ErrGRPCLeaseNotFound,
	messages.Code_CODE_ALIAS_EXISTS:      rpctypes.ErrGRPCLeaseExist,
	messages.Code_CODE_OVERLOADED:        rpctypes.ErrGRPCRequestTooManyRequests,
	messages.Code_CODE_NO_LEADER:         rpctypes.ErrGRPCNoLeader,
	messages.Code_CODE_NOT_LEADER:        rpctypes.ErrGRPCNotLeader,
	messages.Code_CODE_NO_QUORUM:         rpctypes.ErrGRPCNoLeader,
	messages.Code_CODE_TIMEOUT:           rpctypes.ErrGRPCTimeout,
	messages.Code_CODE_NODE_STOPPING:     rpctypes.ErrGRPCStopped,
	messages.Code_CODE_UNAVAILABLE:       rpctypes.ErrGRPCStopped,
	messages.Code_CODE_PERMISSION_DENIED: rpctypes.ErrGRPCPermissionDenied,
	messages.Code_CODE_UNAUTHENTICATED:   rpctypes.ErrGRPCInvalidAuthToken,
	messages.Code_CODE_USER_NOT_FOUND:    rpctypes.ErrGRPCUserNotFound,
	messages.Code_CODE_USER_EXISTS:       rpctypes.ErrGRPCUserAlreadyExist,
	messages.Code_CODE_ROLE_NOT_FOUND:    rpctypes.ErrGRPCRoleNotFound,
	messages.Code_CODE_ROLE_EXISTS:       rpctypes.ErrGRPCRoleAlreadyExist,
	messages.Code_CODE_NO_ADMINISTRATOR:  rpctypes.ErrGRPCInvalidAuthMgmt,
	messages.Code_CODE_AUTH_DISABLED:     rpctypes.ErrGRPCAuthNotEnabled,
}

// statuses are for the codes that etcd has no words for.
var statuses = map[messages.Code]codes.Code{
	messages.Code_CODE_INVALID_ARGUMENT: codes.InvalidArgument,
	messages.Code_CODE_UNSUPPORTED:      codes.Unimplemented,
	messages.Code_CODE_LEASE_KEY_LIMIT:  codes.ResourceExhausted,
	messages.Code_CODE_LEASE_LIMIT:      codes.ResourceExhausted,
	messages.Code_CODE_WATCH_LIMIT:      codes.ResourceExhausted,
	messages.Code_CODE_NOT_READY:        codes.Unavailable,
	messages.Code_CODE_STALE_CLOCK:      codes.Unavailable,
	messages.Code_CODE_CANCELLED:        codes.Unavailable,
}

// toStatus returns an error as etcd's clients know it. One that is a status already,
// or the end of a context, stays.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	var e *messages.Error
	if !errors.As(err, &e) {
		if _, ok := status.FromError(err); ok {
			return err
		}
		return status.Error(codes.Unknown, err.Error())
	}
	if known := refusals[e.Code()]; known != nil {
		return known
	}
	code, ok := statuses[e.Code()]
	if !ok {
		code = codes.Unknown
	}
	return status.Error(code, "etcdserver: "+e.Error())
}

// refused says that an error is a refusal of this code.
func refused(err error, code messages.Code) bool { return err != nil && messages.CodeOf(err) == code }
