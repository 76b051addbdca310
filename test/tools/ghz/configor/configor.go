// Package configor stands in for github.com/jinzhu/configor, which module proxies do not always carry.
// ghz uses it only to read the file named by --config, which this project never passes.
package configor

import (
	"encoding/json"
	"fmt"
	"os"
)

// Load fills config from JSON files, later ones over earlier ones. Other formats are an error that names the file.
func Load(config any, files ...string) error {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, config); err != nil {
			return fmt.Errorf("%s: this build of ghz reads its config file as JSON only: %w", file, err)
		}
	}
	return nil
}
