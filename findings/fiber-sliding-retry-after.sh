#!/usr/bin/env bash
# github.com/gofiber/fiber/v3 v3.1.0 (Go), middleware limiter with SlidingWindow, 2026-11-30.
# Guess: a client that is refused and waits for Retry-After is admitted then.
# So: Retry-After is the end of the current window. At that moment all requests of the window, with the refused ones,
# still count as the window before, so the client is refused again, and told to wait for a whole further window.
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
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/limiter"
)

func main() {
	app := fiber.New()
	app.Use(limiter.New(limiter.Config{
		Max:               4,
		Expiration:        4 * time.Second,
		LimiterMiddleware: limiter.SlidingWindow{},
		KeyGenerator:      func(fiber.Ctx) string { return "client" },
	}))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("ok") })
	for request := 1; request <= 7; request++ {
		answer, err := app.Test(httptest.NewRequest("GET", "/", nil))
		if err != nil {
			panic(err)
		}
		wait := answer.Header.Get("Retry-After")
		if wait == "" {
			wait = "none"
		}
		fmt.Println(request, answer.StatusCode, "Retry-After:", wait)
		seconds, _ := strconv.Atoi(wait)
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}
EOF
go get github.com/gofiber/fiber/v3@v3.1.0 2> install.log
go mod tidy 2>> install.log
go run . > seen
diff - seen <<'EOF'
1 200 Retry-After: none
2 200 Retry-After: none
3 200 Retry-After: none
4 200 Retry-After: none
5 429 Retry-After: 4
6 429 Retry-After: 4
7 200 Retry-After: none
EOF
