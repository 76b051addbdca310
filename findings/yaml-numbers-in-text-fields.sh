#!/usr/bin/env bash
# gopkg.in/yaml.v3 v3.0.1, sigs.k8s.io/yaml v1.6.0, github.com/goccy/go-yaml v1.19.2 (Go), 2026-11-29.
# Guess: a value without quotes that is read into a Go string keeps its characters: `value: 0010` is "0010".
# So: only in yaml.v3. Kubernetes' reader and goccy read a number first, and write it again: "8". A rule for the client
# 0010 then matches the client 8. As requests_per_unit, 1e3 is no error in any of them: it is 1000.
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

	goccy "github.com/goccy/go-yaml"
	"gopkg.in/yaml.v3"
	kubernetes "sigs.k8s.io/yaml"
)

type rule struct {
	Value string `yaml:"value" json:"value"`
	Limit uint32 `yaml:"requests_per_unit" json:"requests_per_unit"`
}

func main() {
	for _, value := range []string{"0010", "1_000", "0x1F", "1.0", "1e3"} {
		text := []byte("value: " + value + "\nrequests_per_unit: 1e3\n")
		var a, b, c rule
		for _, err := range []error{yaml.Unmarshal(text, &a), kubernetes.Unmarshal(text, &b), goccy.Unmarshal(text, &c)} {
			if err != nil {
				panic(err)
			}
		}
		fmt.Printf("%s: yaml.v3 %q, sigs.k8s.io/yaml %q, goccy/go-yaml %q", value, a.Value, b.Value, c.Value)
		fmt.Println("; limits", a.Limit, b.Limit, c.Limit)
	}
}
EOF
go get gopkg.in/yaml.v3@v3.0.1 sigs.k8s.io/yaml@v1.6.0 github.com/goccy/go-yaml@v1.19.2 2> install.log
go mod tidy 2>> install.log
go run . > seen
diff - seen <<'EOF'
0010: yaml.v3 "0010", sigs.k8s.io/yaml "8", goccy/go-yaml "8"; limits 1000 1000 1000
1_000: yaml.v3 "1_000", sigs.k8s.io/yaml "1000", goccy/go-yaml "1000"; limits 1000 1000 1000
0x1F: yaml.v3 "0x1F", sigs.k8s.io/yaml "31", goccy/go-yaml "31"; limits 1000 1000 1000
1.0: yaml.v3 "1.0", sigs.k8s.io/yaml "1", goccy/go-yaml "1"; limits 1000 1000 1000
1e3: yaml.v3 "1e3", sigs.k8s.io/yaml "1000", goccy/go-yaml "1e3"; limits 1000 1000 1000
EOF
