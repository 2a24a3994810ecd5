//go:build race

package main

// slow is how much longer than usual the tests' time limits are.
const slow = 4
