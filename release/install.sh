#!/bin/sh
# Installs a release of Layercake from a folder or a URL, without root.
#
#   sh install.sh [--prefix FOLDER] [--small] [--public-key FILE] SOURCE
#
#   SOURCE         the folder that has the archive and SHA256SUMS: a path, or a file:, http: or https: URL
#   --prefix       where to install; the default is ~/.local. The command is linked to FOLDER/bin
#   --small        install the archive without etcd, kube-apiserver and the other programs that `layercake up` starts
#   --public-key   verify the signature of SHA256SUMS with this minisign key. minisign must be installed
#
# Nothing is installed unless every checksum fits. An interrupted installation leaves the installed release as it was.
set -eu

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

prefix=${HOME:-}/.local
small=
key=
source=
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=${2:?"--prefix needs a folder"} && shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --public-key) key=${2:?"--public-key needs a file"} && shift ;;
    --public-key=*) key=${1#*=} ;;
    --small) small=-small ;;
    -h | --help) sed -n '2,/^set/ { s/^# \{0,1\}//; /^set/!p; }' "$0" && exit ;;
    -*) fail "unknown option $1; run: sh install.sh --help" ;;
    *) source=$1 ;;
  esac
  shift
done
[ -n "$source" ] || fail "name the folder or URL of the release; run: sh install.sh --help"

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
  fail "this release is for Linux on x86_64, not for $(uname -s) on $(uname -m). Build Layercake from its source instead"
for program in tar gzip sha256sum mktemp; do
  command -v "$program" >/dev/null || fail "$program is not installed"
done

mkdir -p "$prefix/bin" "$prefix/lib" 2>/dev/null && [ -w "$prefix/lib" ] && [ -w "$prefix/bin" ] ||
  fail "cannot write to $prefix/bin and $prefix/lib. Choose another folder with --prefix"
prefix=$(cd "$prefix" && pwd)
full="If the disk is full, free about 1 GiB or choose another folder with --prefix"

# What a killed installation left.
rm -rf "$prefix"/lib/.layercake.*
work=$(mktemp -d "$prefix/lib/.layercake.XXXXXX") || fail "cannot make a folder in $prefix/lib"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Copies a file of the release into the work folder.
fetch() {
  case $source in
    http://* | https://*)
      if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$work/$1" "${source%/}/$1"
      elif command -v wget >/dev/null; then
        wget --quiet --output-document="$work/$1" "${source%/}/$1"
      else
        fail "neither curl nor wget is installed. Download the release, and name its folder"
      fi
      ;;
    file://*) cp "${source#file://}/$1" "$work/$1" ;;
    *) cp "$source/$1" "$work/$1" ;;
  esac || fail "cannot copy $1 from $source to $prefix/lib. $full"
}

fetch SHA256SUMS
if [ -n "$key" ]; then
  command -v minisign >/dev/null || fail "minisign is not installed, so that the signature cannot be verified"
  fetch SHA256SUMS.minisig
  minisign -V -q -p "$key" -m "$work/SHA256SUMS" ||
    fail "the signature of SHA256SUMS is not valid for the key in $key. Do not use this release"
else
  echo "The signature was not verified, because no key was named (--public-key)."
fi

archive=$(sed -n "s/^[0-9a-f]\{64\}  \(layercake-v[0-9A-Za-z.+-]*-x86_64-linux$small\.tar\.gz\)$/\1/p" "$work/SHA256SUMS")
[ "$(echo "$archive" | grep -c .)" = 1 ] || fail "SHA256SUMS of $source does not list one archive for x86_64-linux$small"
name=${archive%.tar.gz}

fetch "$archive"
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum --check --strict --quiet >&2) ||
  fail "$archive is damaged: its checksum is not the one in SHA256SUMS. Download it again"
tar -xzf "$work/$archive" -C "$work" ||
  fail "cannot unpack $archive into $prefix/lib. $full"
(cd "$work/$name" && sha256sum --check --strict --quiet SHA256SUMS >&2) ||
  fail "$archive was not unpacked correctly. Check the disk of $prefix, and try again"
"$work/$name/bin/layercake" version >"$work/version" 2>&1 ||
  fail "cannot run layercake from $prefix: $(head -n 1 "$work/version"). If the file system is mounted noexec, choose another folder with --prefix"

# Another build of the same version has another folder, so each step below leaves either the old or the new release usable.
digest=$(sed -n "s/^\([0-9a-f]\{12\}\).*  $archive$/\1/p" "$work/SHA256SUMS")
target=$prefix/lib/$name-$digest
if ! (cd "$target" && cmp -s SHA256SUMS "$work/$name/SHA256SUMS" && sha256sum --check --strict --quiet SHA256SUMS) >/dev/null 2>&1; then
  rm -rf "$target"
  mv "$work/$name" "$target"
fi

# Links a file of the release into the prefix.
link() {
  mkdir -p "$prefix/$(dirname "$1")"
  ln -s "$target/$1" "$work/link"
  mv -f "$work/link" "$prefix/$1"
}
link bin/layercake
for file in share/bash-completion/completions/layercake share/fish/vendor_completions.d/layercake.fish \
  share/zsh/site-functions/_layercake; do
  [ ! -e "$target/$file" ] || link "$file"
done
for page in "$target"/share/man/man1/*.1; do
  [ ! -e "$page" ] || link "share/man/man1/${page##*/}"
done

for other in "$prefix/lib/$name"-????????????; do
  [ "$other" = "$target" ] || rm -rf "$other"
done

echo "Installed $name. The command is $prefix/bin/layercake."
case :$PATH: in
  *":$prefix/bin:"*) ;;
  *) echo "Add $prefix/bin to PATH to run it by name." ;;
esac
