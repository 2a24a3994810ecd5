package sim

import "time"

// Shrink looks for a shorter script that still breaks the same promise, for as long as
// patience lasts. fails runs a script and returns which promise it breaks, "" for none.
func Shrink(script []string, fails func([]string) string, patience time.Duration) []string {
	want := fails(script)
	if want == "" {
		return script // not deterministic, or not in the script
	}
	end := time.Now().Add(patience)
	for size := len(script) / 2; size >= 1 && time.Now().Before(end); {
		shorter := false
		for at := 0; at+size <= len(script) && time.Now().Before(end); {
			try := append(append([]string{}, script[:at]...), script[at+size:]...)
			if fails(try) == want {
				script, shorter = try, true
			} else {
				at += size
			}
		}
		if size == 1 && !shorter {
			break
		}
		if !shorter || size > len(script)/2 {
			size = max(1, size/2)
		}
	}
	return script
}
