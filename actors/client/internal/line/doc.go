// Package line is the queue behind a right that one holder has at a time: each who
// wants it puts a key of its own under the subject's prefix, attached to its session's
// lease, and the one that was created first has it.
//
// A Place is one key. Its wake-ups mean nothing but "look again": the right is there when a
// linearizable list shows the own key with the lowest create revision of all and the
// session has not been lost. A waiter watches the key before its own, so that one
// release wakes one waiter, and its own key, so that it learns when it is out. The
// create revision of the holder's key is the fencing token of the right: it rises with
// every grant, because who is granted later was created later.
package line
