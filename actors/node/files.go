package node

import "log/slog"

const (
	// filesReserve are the open files that are left to everything but the connections of
	// clients: the log, snapshots, the other nodes, services, operators.
	filesReserve = 512
	// connectionsLeast is what clients have however few files there are.
	connectionsLeast = 16
	// adminConnectionsMax is for the operators' HTTP listener.
	adminConnectionsMax = 64
)

// fitFiles lowers what the listeners of clients take to what the system lets this process
// open, and says so. Without it, clients could take the files that the log is written to,
// which ends the process. files is 0 where the system does not say.
func (c *Config) fitFiles(files uint64) {
	listeners := 0
	if c.ClientAddress != "" {
		listeners++
	}
	if c.Etcd != nil {
		listeners++
	}
	if files == 0 || files > 1<<30 || listeners == 0 {
		return
	}
	most := max(connectionsLeast, (int(files)-filesReserve)/listeners)
	if most >= c.clientConnections() {
		return
	}
	c.Logger.Warn("fewer connections of clients are taken than configured: the system lets this process open no more files",
		slog.Uint64("files", files), slog.Int("connections", most), slog.Int("configured", c.clientConnections()))
	c.connections = most
}
