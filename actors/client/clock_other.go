//go:build !linux

package client

import "time"

func bootTime() (time.Duration, bool) { return 0, false }
