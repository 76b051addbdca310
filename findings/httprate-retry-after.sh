#!/usr/bin/env bash
# github.com/go-chi/httprate v0.16.1 (Go), 2026-11-29.
# Guess: Retry-After is the time until a request is admitted again, or until the window ends.
# So: it is the length of the window, however much of it has passed; the client is admitted long before.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'EOF'
module probe

go 1.21
EOF
cat > main.go <<'EOF'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/httprate"
)

func main() {
	everyone := func(*http.Request) (string, error) { return "everyone", nil }
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {})
	limited := httprate.Limit(3, 8*time.Second, httprate.WithKeyFuncs(everyone))(next)
	ask := func() *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		limited.ServeHTTP(recorder, httptest.NewRequest("GET", "/", nil))
		return recorder
	}
	refusals := map[string]bool{}
	refusedAt := time.Time{}
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		answer := ask()
		if answer.Code == 429 {
			refusals[answer.Header().Get("Retry-After")] = true
			refusedAt = time.Now()
		} else if len(refusals) > 0 {
			fmt.Println("Retry-After of the refusals:", refusals)
			fmt.Println("admitted less than 4 s after the last one:", time.Since(refusedAt) < 4*time.Second)
			return
		}
	}
}
EOF
go get github.com/go-chi/httprate@v0.16.1 2> install.log
go mod tidy 2>> install.log
go run . > seen
diff - seen <<'EOF'
Retry-After of the refusals: map[8:true]
admitted less than 4 s after the last one: true
EOF
