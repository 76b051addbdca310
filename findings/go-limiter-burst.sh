#!/usr/bin/env bash
# github.com/sethvargo/go-limiter v0.7.1 (Go), memorystore, 2026-11-29.
# Guess: Burst grants tokens once, on top of what is left; the next interval starts with the configured number.
# So: this holds for a client that has been seen. A client whose first call is Burst gets a bucket of that size more for
# each following interval, and is told the larger limit.
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
	"context"
	"fmt"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
)

func main() {
	ctx := context.Background()
	store, err := memorystore.New(&memorystore.Config{Tokens: 3, Interval: time.Second})
	if err != nil {
		panic(err)
	}
	store.Take(ctx, "seen")
	for _, client := range []string{"seen", "new"} {
		store.Burst(ctx, client, 5)
	}
	time.Sleep(2100 * time.Millisecond)
	for _, client := range []string{"seen", "new"} {
		limit, remaining, _, _, _ := store.Take(ctx, client)
		fmt.Println(client, "two intervals later: limit", limit, "remaining", remaining)
	}
}
EOF
go get github.com/sethvargo/go-limiter@v0.7.1 2> install.log
go mod tidy 2>> install.log
go run . > seen
diff - seen <<'EOF'
seen two intervals later: limit 3 remaining 2
new two intervals later: limit 8 remaining 7
EOF
