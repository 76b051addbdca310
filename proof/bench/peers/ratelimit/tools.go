//go:build tools

// Package tools names the command that this module pins.
package tools

import _ "github.com/envoyproxy/ratelimit/src/service_cmd"
