package main

import (
	"errors"
	"io"
	"os"
)

// errOutput is the error of a command that did what it was asked for and could not say so.
var errOutput = errors.New("the answer could not be printed")

// output remembers that a write failed: a script must not take half an answer for one.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// plain returns the writer that a process below is given.
func plain(w io.Writer) io.Writer {
	if o, ok := w.(*output); ok {
		return o.Writer
	}
	return w
}

// isTerminal tells whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := plain(w).(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
