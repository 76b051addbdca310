//go:build tools

// Package tools names the command that this module pins.
package tools

import _ "github.com/summerwind/h2spec/cmd/h2spec"
