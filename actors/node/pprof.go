package node

import (
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// profileSecondsMax bounds how long one profile or trace may run.
const profileSecondsMax = 120

// addPprof serves profiles as net/http/pprof does. That package is not imported:
// it puts its handlers on the default mux of whatever process a node is embedded
// in.
func addPprof(mux *http.ServeMux) {
	// One in a hundred fights for a lock, and waits of 100 us and more: costs too little
	// to be measured.
	runtime.SetMutexProfileFraction(100)
	runtime.SetBlockProfileRate(int(100 * time.Microsecond))
	mux.HandleFunc("GET /debug/pprof/profile", timed(30, func(w http.ResponseWriter) (func(), error) {
		return pprof.StopCPUProfile, pprof.StartCPUProfile(w)
	}))
	mux.HandleFunc("GET /debug/pprof/trace", timed(1, func(w http.ResponseWriter) (func(), error) {
		return trace.Stop, trace.Start(w)
	}))
	mux.HandleFunc("GET /debug/pprof/{name}", func(w http.ResponseWriter, r *http.Request) {
		p := pprof.Lookup(r.PathValue("name"))
		if p == nil {
			http.NotFound(w, r)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug")) // 0, the binary form, when absent
		_ = p.WriteTo(w, debug)                        // the client is gone: nobody to tell
	})
}

// timed runs what start starts for ?seconds=, or until the client leaves.
func timed(secondsDefault int, start func(http.ResponseWriter) (stop func(), err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		seconds := secondsDefault
		if s := r.FormValue("seconds"); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || n > profileSecondsMax {
				http.Error(w, "seconds is a number from 1 to "+strconv.Itoa(profileSecondsMax), http.StatusBadRequest)
				return
			}
			seconds = n
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		stop, err := start(w)
		if err != nil {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			http.Error(w, err.Error(), http.StatusConflict) // one is running already
			return
		}
		defer stop()
		t := time.NewTimer(time.Duration(seconds) * time.Second)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
}
