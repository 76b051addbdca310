#!/usr/bin/env bash
# gopkg.in/yaml.v3 v3.0.1, sigs.k8s.io/yaml v1.6.0, github.com/goccy/go-yaml v1.19.2 (Go), PyYAML 6.0.3 and
# 6.0.4, ruamel.yaml 0.19.1 (PyPI), js-yaml 5.5.0 (npm), 2026-11-29. Input: a rule file that shares limits by an anchor.
# Guess: all readers let a mapping's own keys win over merged ones, and earlier merged mappings over later ones, as the
# description of the merge key says; Kubernetes' reader is yaml.v3 with JSON names.
# So: if << comes last, Kubernetes' reader and goccy let the merged key win; of two merged mappings, goccy and PyYAML
# 6.0.4 let the last one win, PyYAML 6.0.3 the first; js-yaml 5 does not merge at all, and keeps a key named <<. One
# file, three different limits.
# goccy does so for maps; into structs it refuses the file for a duplicate key.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > rules.yaml <<'EOF'
shared:
  - &short { unit: minute }
  - &long { unit: day }
own: { unit: second, <<: *short }
merged: { <<: [*short, *long] }
EOF
cat > go.mod <<'EOF'
module probe

go 1.21
EOF
cat > main.go <<'EOF'
package main

import (
	"fmt"
	"os"

	goccy "github.com/goccy/go-yaml"
	"gopkg.in/yaml.v3"
	kubernetes "sigs.k8s.io/yaml"
)

func main() {
	text, _ := os.ReadFile("rules.yaml")
	readers := []struct {
		name string
		read func([]byte, any) error
	}{
		{"yaml.v3", func(text []byte, into any) error { return yaml.Unmarshal(text, into) }},
		{"sigs.k8s.io/yaml", func(text []byte, into any) error { return kubernetes.Unmarshal(text, into) }},
		{"goccy/go-yaml", func(text []byte, into any) error { return goccy.Unmarshal(text, into) }},
	}
	for _, reader := range readers {
		var read map[string]any
		if err := reader.read(text, &read); err != nil {
			panic(err)
		}
		own, merged := read["own"].(map[string]any), read["merged"].(map[string]any)
		fmt.Println(reader.name, own["unit"], merged["unit"])
	}
}
EOF
go get gopkg.in/yaml.v3@v3.0.1 sigs.k8s.io/yaml@v1.6.0 github.com/goccy/go-yaml@v1.19.2 2> install.log
go mod tidy 2>> install.log
cat > probe.py <<'EOF'
import ruamel.yaml, yaml
for name, load in {f'PyYAML {yaml.__version__}': yaml.safe_load, 'ruamel.yaml': ruamel.yaml.YAML(typ='safe').load}.items():
    rules = load(open('rules.yaml'))
    print(name, rules['own']['unit'], rules['merged']['unit'])
EOF
for version in 6.0.3 6.0.4; do
  python3 -m venv "venv-$version"
  "venv-$version/bin/pip" install --quiet "pyyaml==$version" ruamel.yaml==0.19.1 >> install.log
done
echo '{}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts --prefix . js-yaml@5.5.0 >> install.log
cat > probe.mjs <<'EOF'
import { readFileSync } from 'node:fs';
import { load } from 'js-yaml';
const { own, merged } = load(readFileSync('rules.yaml', 'utf8'));
console.log('js-yaml', own.unit, merged.unit, Object.keys(merged).join());
EOF
{
  go run .
  venv-6.0.3/bin/python probe.py
  venv-6.0.4/bin/python probe.py
  node probe.mjs
} > seen
diff - seen <<'EOF'
yaml.v3 second minute
sigs.k8s.io/yaml minute minute
goccy/go-yaml minute day
PyYAML 6.0.3 second minute
ruamel.yaml second minute
PyYAML 6.0.4 second day
ruamel.yaml second minute
js-yaml second undefined <<
EOF
