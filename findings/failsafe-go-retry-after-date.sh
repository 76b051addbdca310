#!/usr/bin/env bash
# github.com/failsafe-go/failsafe-go v0.9.8 (Go), failsafehttp, 2026-11-30.
# Guess: its retry policy for HTTP honours Retry-After in both of its forms, seconds and a date.
# So: only seconds. With a date the policy's own delay applies, which is none by default: it retries at once.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'EOF'
module probe

go 1.25
EOF
cat > main.go <<'EOF'
package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafehttp"
)

func main() {
	forms := []string{"seconds", "date"}
	for _, form := range forms {
		calls := []time.Time{}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls = append(calls, time.Now())
			if len(calls) > 1 {
				return
			}
			wait := "3"
			if form == "date" {
				wait = time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat) // at least 3 s: dates have no fractions
			}
			w.Header().Set("Retry-After", wait)
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		policy := failsafehttp.NewRetryPolicyBuilder().WithMaxRetries(1).Build()
		client := &http.Client{Transport: failsafehttp.NewRoundTripper(nil, policy)}
		answer, err := client.Get(server.URL)
		if err != nil {
			panic(err)
		}
		waited := "at once"
		if calls[1].Sub(calls[0]) > 2900*time.Millisecond {
			waited = "after the wait"
		}
		fmt.Println(form, answer.StatusCode, "retried", waited)
		server.Close()
	}
}
EOF
go get github.com/failsafe-go/failsafe-go@v0.9.8 2> install.log
go mod tidy 2>> install.log
go run . > seen
diff - seen <<'EOF'
seconds 200 retried after the wait
date 200 retried at once
EOF
