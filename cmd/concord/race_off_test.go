//go:build !race

package main

// slow multiplies the times that the tests give and take.
const slow = 4
