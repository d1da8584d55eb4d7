#!/bin/sh
# Makes the certificates of the service (server/) and of its schedulers (client/), and their CA
# (ca/) when there is none yet:
#   make-certificates.sh FOLDER
# Run it again before they end (DAYS); the CA stays, so old and new ones are trusted alike.
set -eu
umask 077

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
OUT=$1
DAYS=${DAYS:-365}
CA_DAYS=${CA_DAYS:-3650}
HOST=${HOST:-runtimeclass-extender.runtimeclass-extender.svc}

mkdir -p "$OUT/ca" "$OUT/server" "$OUT/client"
cd "$OUT"

if [ ! -f ca/ca.key ]; then
    openssl ecparam -name prime256v1 -genkey -noout -out ca/new.key
    cat > ca/ca.cnf <<CNF
[req]
distinguished_name = name
x509_extensions = ca
prompt = no
[name]
CN = runtimeclass-extender-ca
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
CNF
    openssl req -x509 -new -sha256 -key ca/new.key -days "$CA_DAYS" \
        -config ca/ca.cnf -out ca/ca.crt
    rm ca/ca.cnf
    mv ca/new.key ca/ca.key
fi

# FOLDER NAME USAGE SUBJECT-ALTERNATIVE-NAME
make_certificate() {
    openssl ecparam -name prime256v1 -genkey -noout -out "$1/new.key"
    openssl req -new -sha256 -key "$1/new.key" -subj "/CN=$2" -out "$1/new.csr"
    cat > "$1/new.ext" <<EXT
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = $3
subjectAltName = DNS:$4
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EXT
    openssl x509 -req -sha256 -in "$1/new.csr" -CA ca/ca.crt -CAkey ca/ca.key \
        -set_serial "0x$(openssl rand -hex 16)" -days "$DAYS" -extfile "$1/new.ext" \
        -out "$1/new.crt" 2> "$1/log" || { cat "$1/log" >&2; exit 1; }
    openssl verify -x509_strict -CAfile ca/ca.crt "$1/new.crt" > /dev/null
    mv "$1/new.key" "$1/tls.key"
    mv "$1/new.crt" "$1/tls.crt"
    cp ca/ca.crt "$1/ca.crt"
    rm "$1/new.csr" "$1/new.ext" "$1/log"
    openssl x509 -in "$1/tls.crt" -noout -enddate |
        sed "s|^notAfter=|$OUT/$1/tls.crt: valid until |"
}

make_certificate server "$HOST" serverAuth "$HOST"
make_certificate client kube-scheduler clientAuth kube-scheduler
