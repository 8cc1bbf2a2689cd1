/** The text of the signer's configuration. */

import type { Answers } from './answers.ts'
import { PLACES } from './facts.ts'
import { list, yaml } from './service-config.ts'

interface IssuerFiles {
  /** Undefined where the issuer is a root itself. */
  chain: string | undefined
  hasPassphrase: boolean
  /** Signs with the hash that fits the key. */
  hash: 'sha256' | 'sha384' | 'sha512'
}

export function signerConfig(answers: Answers, { chain, hasPassphrase, hash }: IssuerFiles): string {
  const { domains, networks, crl_url } = answers
  return `# Configuration of the signer. Every key: signer/signer.example.yaml.
# Check a change with: chancery-signer --validate-only -c ${PLACES.signerConfig}
# Apply it with: systemctl reload chancery-signer
socket: ${PLACES.socket}
# Service and signer prove by it who they are.
secret_file: ${PLACES.secret}
audit:
  # Everything that was signed. Back up the folder.
  file: ${PLACES.audit}

issuers:
  # The id is part of the list's URL: never change it.
  - id: default
    certificate: ${PLACES.issuer}
${chain === undefined ? '' : `    # The CAs above it, the root last.\n    chain: ${chain}\n`}    hash: ${hash}
    key:
${keyLines(answers, hasPassphrase).join('\n')}
    policy:
      # What the signer refuses to sign, whatever the service asks.
      max_validity_days: 398
      permitted:
        # A domain covers itself and all below.
        dns: ${list(domains)}
${networks.length > 0 ? `        ip: ${list(networks)}\n` : `      # No addresses.\n      excluded: { ip: ["0.0.0.0/0", "::/0"] }\n`}${
  crl_url === 'none'
    ? ''
    : `      # Where the lists of revoked certificates may be.\n      crl_urls: [${yaml(`${crl_url}/`)}]\n`
}`
}

function keyLines(
  { issuer, key, token_library, token_label, token, token_key }: Answers,
  hasPassphrase: boolean,
): string[] {
  if (issuer === 'import' || key === 'file')
    return [
      `      file: ${PLACES.issuerKey}`,
      ...(hasPassphrase ? [`      passphrase_file: ${PLACES.issuerPassphrase}`] : []),
    ]
  return [
    '      pkcs11:',
    `        library: ${yaml(token_library)}`,
    `        token: ${yaml(token_label)}`,
    `        pin_file: ${token === 'softhsm' ? PLACES.softhsmPin : PLACES.tokenPin}`,
    `        label: ${yaml(token_key)}`,
  ]
}

/** Systemd's additions to the unit of a signer whose token is no file. */
export function tokenDropIn({ token, token_address }: Answers): string {
  const about = '# What the signer needs to reach its token; deploy/systemd/hsm.conf explains it.\n[Service]\n'
  if (token === 'network')
    return `${about}PrivateNetwork=no\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\nIPAddressAllow=${token_address}\n`
  return `${about}PrivateDevices=no
DevicePolicy=closed
DeviceAllow=char-usb_device rw
PrivateNetwork=no
RestrictAddressFamilies=AF_UNIX AF_NETLINK
SupplementaryGroups=plugdev
PrivateUsers=no
`
}
