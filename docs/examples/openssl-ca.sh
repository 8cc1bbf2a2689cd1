#!/bin/sh
# A CA of OpenSSL 3 behind command-ca.js: CA_FOLDER has ca.pem and ca.key, and gets the folders issued and revoked.
#
# The serial number is the id of the issuance, and what was issued is kept. So the same request gets the same certificate,
# however often it comes.
set -eu
umask 077
cd "$CA_FOLDER"

case $1 in
check)
  test -r ca.key
  openssl x509 -in ca.pem -noout -checkend 86400 >&2
  ;;
issue)
  if [ -n "$CHANCERY_NOT_BEFORE$CHANCERY_NOT_AFTER" ]; then
    echo "this CA issues for whole days from now only" >&2
    exit 2
  fi
  serial=$(printf %s "$CHANCERY_CERTIFICATE_ID" | tr -d -)
  mkdir -p issued
  if [ ! -s "issued/$serial.pem" ]; then
    work=$(mktemp -d "$CA_FOLDER/work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cat >"$work/request.pem"
    # Of the CSR only the key counts: the order decides the names.
    cat >"$work/extensions" <<END
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
${CHANCERY_EXTENDED_KEY_USAGES:+extendedKeyUsage = $CHANCERY_EXTENDED_KEY_USAGES}
subjectAltName = critical, $CHANCERY_NAMES
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END
    openssl x509 -req -in "$work/request.pem" -subj / -CA ca.pem -CAkey ca.key -set_serial "0x$serial" \
      -days "$CHANCERY_VALIDITY_DAYS" -sha256 -extfile "$work/extensions" -out "$work/certificate.pem" >&2 || exit 75
    mv "$work/certificate.pem" "issued/$serial.pem"
  fi
  cat "issued/$serial.pem" ca.pem
  ;;
revoke)
  # The program that makes this CA's list reads the folder.
  mkdir -p revoked
  printf '%s\n' "$CHANCERY_REASON" >"revoked/$CHANCERY_SERIAL_NUMBER"
  ;;
*)
  echo "unknown word $1" >&2
  exit 2
  ;;
esac
