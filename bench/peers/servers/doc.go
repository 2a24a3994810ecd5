// Package servers pins the servers that Concord is measured beside. They are built from
// source through the Go module proxy; nothing here is imported.
package servers
