// Package e2e holds the client's tests against real nodes.
package e2e
