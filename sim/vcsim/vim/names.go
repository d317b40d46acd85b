package vim

import (
	"strings"
	"unicode/utf8"
)

// longestName are the characters of the longest name of an object, escapes counted as the characters that they stand for.
const longestName = 80

var unescape = strings.NewReplacer("%25", "%", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`)

// Unescaped is a name as people see it: in the API, a slash, a backslash and a percent sign are written as escapes.
func Unescaped(name string) string { return unescape.Replace(name) }

// Escaped is a name as vCenter stores it. An escape that is in it already stays.
func Escaped(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2f", `\`, "%5c").Replace(Unescaped(name))
}

// IsName tells whether an object can have the name.
func IsName(name string) bool {
	return strings.TrimSpace(name) != "" && utf8.RuneCountInString(Unescaped(name)) <= longestName
}
