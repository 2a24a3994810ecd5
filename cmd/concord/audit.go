package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/actors/client"
	"github.com/concord-kv/concord/messages"
)

func (a *app) auditCommand() *cobra.Command {
	var request messages.AuditRequest
	var oldest bool
	c := &cobra.Command{
		Use:   "audit",
		Short: "Who changed users, roles, configuration, members, and made backups: the newest first",
		Args:  cobra.NoArgs,
		RunE: a.with(func(ctx context.Context, s *client.Client, _ []string) error {
			request.NewestFirst = !oldest
			r, err := s.Audit(ctx, &request)
			if err != nil {
				return err
			}
			for _, one := range r.GetRecords() {
				if err := a.print(auditObject(one), func() { a.printAudit(one) }); err != nil {
					return err
				}
			}
			if n := len(r.GetRecords()); r.GetHasMore() && n > 0 {
				a.note("concord: there are more: --after %d", r.GetRecords()[n-1].GetId())
			}
			return nil
		}),
	}
	f := c.Flags()
	f.Uint32Var(&request.Limit, "limit", 100, "at most so many, up to 10,000")
	f.Uint64Var(&request.AfterId, "after", 0, "go on after the record of this id")
	f.StringVar(&request.Principal, "principal", "", "only what this user did")
	f.StringVar(&request.Action, "action", "", "only this action, as user_add")
	f.BoolVar(&oldest, "oldest-first", false, "in the order in which it happened")
	return c
}

func auditObject(r *messages.AuditRecord) object {
	return object{
		"id": r.GetId(), "at_unix_ms": r.GetAtUnixMs(), "clock_ms": r.GetClockMs(), "principal": r.GetPrincipal(), "address": r.GetAddress(),
		"action": r.GetAction(), "detail": r.GetDetail(), "code": messages.CodeName(r.GetCode()), "revision": r.GetRevision(),
	}
}

func (a *app) printAudit(r *messages.AuditRecord) {
	who := r.GetPrincipal()
	if who == "" {
		who = "-"
	}
	at := "-"
	if ms := r.GetAtUnixMs(); ms != 0 {
		at = time.UnixMilli(ms).UTC().Format(time.RFC3339)
	}
	a.printf("%d\t%s\t%s\t%s\t%s\t%s\t%s\n", r.GetId(), at,
		quote([]byte(who)), r.GetAddress(), r.GetAction(), quote([]byte(r.GetDetail())), messages.CodeName(r.GetCode()))
}
