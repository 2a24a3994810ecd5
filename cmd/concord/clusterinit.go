package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/concord-kv/concord/cluster/certs"
	"github.com/concord-kv/concord/messages"
)

// clusterPlan is the first members of a new cluster, and where their files go.
type clusterPlan struct {
	dir     string
	members []*messages.MemberAddress
	admins  map[uint64]string // admin address; none without
	tls     bool
}

func (a *app) clusterInitCommand() *cobra.Command {
	var (
		p       clusterPlan
		members []string
	)
	c := &cobra.Command{
		Use:   "init DIR --member ID=HOST...",
		Short: "Write the configuration of each node of a new cluster, with certificates",
		Long: "Write, for each member, DIR/nodeID.conf: what `concord serve --config` needs, the same members for each.\n" +
			"With --tls also an authority and a certificate for each node, for traffic between nodes. The cluster\n" +
			"begins when a majority has been started.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			p.dir = args[0]
			if p.members, err = membersOf("member", members); err != nil {
				return err
			}
			if len(p.members) == 0 {
				return messages.InvalidField("member", "at least one is needed; 3 or 5 survive the loss of 1 or 2")
			}
			if err := p.write(); err != nil {
				return err
			}
			files := make([]string, len(p.members))
			for i, m := range p.members {
				files[i] = p.configFile(m.ReplicaId)
			}
			return a.print(object{"files": files}, func() {
				a.printf("on each host, with the files of %s:\n", p.dir)
				for _, f := range files {
					a.printf("  concord serve --config %s\n", f)
				}
			})
		},
	}
	c.Flags().StringArrayVar(&members, "member", nil, "a member as ID=HOST or ID=RAFT,PEER,CLIENT; may be repeated")
	c.Flags().BoolVar(&p.tls, "tls", false, "certificates for mutual TLS between nodes")
	return c
}

func (p *clusterPlan) configFile(id uint64) string {
	return filepath.Join(p.dir, "node"+number(id)+".conf")
}

// write writes the files. It does not overwrite: a cluster is begun once.
func (p *clusterPlan) write() error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return messages.InvalidField("dir", "%v", err)
	}
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return messages.InvalidField("dir", "%v", err)
	}
	p.dir = dir
	if p.tls {
		if err := p.writeCertificates(); err != nil {
			return err
		}
	}
	for _, m := range p.members {
		var b strings.Builder
		fmt.Fprintf(&b, "# Flags of concord serve, one a line.\nreplica-id=%d\ndata-dir=%s\n", m.ReplicaId, filepath.Join(p.dir, "node"+number(m.ReplicaId)))
		for _, o := range p.members {
			fmt.Fprintf(&b, "member=%d=%s,%s,%s\n", o.ReplicaId, o.Raft, o.Peer, o.Client)
		}
		if admin := p.admins[m.ReplicaId]; admin != "" {
			fmt.Fprintf(&b, "admin=%s\n", admin)
		}
		if p.tls {
			fmt.Fprintf(&b, "node-ca=%s\n", filepath.Join(p.dir, "ca.crt"))
			name := filepath.Join(p.dir, "node"+number(m.ReplicaId))
			fmt.Fprintf(&b, "node-cert=%s.crt\nnode-key=%s.key\n", name, name)
		}
		f, err := os.OpenFile(p.configFile(m.ReplicaId), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return messages.InvalidField("dir", "%v", err)
		}
		_, err = f.WriteString(b.String())
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (p *clusterPlan) writeCertificates() error {
	authority, err := certs.NewAuthority("concord nodes")
	if err != nil {
		return err
	}
	if err := authority.Pair().Save(p.dir, "ca"); err != nil {
		return messages.InvalidField("dir", "%v", err)
	}
	for _, m := range p.members {
		hosts := map[string]bool{}
		var list []string
		for _, at := range []string{m.Raft, m.Peer, m.Client} {
			if host, _, err := net.SplitHostPort(at); err == nil && !hosts[host] {
				hosts[host] = true
				list = append(list, host)
			}
		}
		pair, err := authority.Issue(certs.Request{Name: "node" + strconv.FormatUint(m.ReplicaId, 10), Hosts: list})
		if err != nil {
			return err
		}
		if err := pair.Save(p.dir, "node"+number(m.ReplicaId)); err != nil {
			return messages.InvalidField("dir", "%v", err)
		}
	}
	return nil
}
