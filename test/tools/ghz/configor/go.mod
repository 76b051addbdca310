module github.com/jinzhu/configor

go 1.21
