/** The steps for the signer: its configuration, what its token needs of systemd, and a first check. */

import { PATHS, PLACES, SIGNER } from '../../installation/places.ts'
import { type Facts, type GivenCertificates, isThere } from '../facts.ts'
import type { Answers } from '../questions.ts'
import { configText, noted, quoted, type Section } from './config-text.ts'
import { hashFor, tokenEnv } from './issuer.ts'
import { type Step, stepsOf } from './step.ts'

export function signerSteps(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  const isBelowOthers = given ? given.chain.length > 0 : isThere(facts, PATHS.chain)
  const text = signerConfig(answers, {
    chain: answers.issuer === 'new' ? PATHS.root : isBelowOthers ? PATHS.chain : undefined,
    hasPassphrase: answers.import_passphrase !== '' || isThere(facts, PATHS.issuerPassphrase),
    hash: hashFor(answers, given?.issuer ?? facts.files[PATHS.issuer]),
  })
  const isRealToken = answers.issuer !== 'import' && answers.key === 'token' && answers.token !== 'softhsm'
  return stepsOf(
    {
      title: "The signer's configuration",
      work: { kind: 'file', at: PLACES.signerConfig, text },
    },
    isRealToken && {
      title: 'What the signer may reach, for its token',
      work: { kind: 'file', at: PLACES.tokenDropIn, text: tokenDropIn(answers) },
    },
    {
      title: "Check the signer's configuration, with a signature of its key",
      work: {
        kind: 'run',
        command: {
          words: [...(facts.programs.signer ?? []), '--validate-only', '-c', PATHS.signerConfig],
          as: SIGNER,
          env: tokenEnv(answers) ?? {},
        },
      },
    },
  )
}

const ABOUT = [
  'Configuration of the signer. Every key: signer/signer.example.yaml.',
  `Check a change with: chancery-signer --validate-only -c ${PATHS.signerConfig}`,
  'Apply it with: systemctl reload chancery-signer',
]

interface IssuerFiles {
  /** Undefined where the issuer is a root itself. */
  chain: string | undefined
  hasPassphrase: boolean
  /** The hash that fits the key. */
  hash: 'sha256' | 'sha384' | 'sha512'
}

function signerConfig(answers: Answers, { chain, hasPassphrase, hash }: IssuerFiles): string {
  const { domains, networks, crl_url } = answers
  const issuer: Section = {
    id: 'default',
    certificate: PATHS.issuer,
    chain: chain === undefined ? undefined : noted('The CAs above it, the root last.', chain),
    hash,
    key: keyOf(answers, hasPassphrase),
    policy: {
      max_validity_days: noted('What the signer refuses to sign, whatever the service asks.', 398),
      permitted: {
        dns: noted('A domain covers itself and all below.', domains.map(quoted)),
        ip: networks.length > 0 ? networks.map(quoted) : undefined,
      },
      excluded: networks.length > 0 ? undefined : noted('No addresses.', { ip: ['0.0.0.0/0', '::/0'].map(quoted) }),
      crl_urls:
        crl_url === 'none'
          ? undefined
          : noted('Where the lists of revoked certificates may be.', [quoted(`${crl_url}/`)]),
    },
  }
  return configText({
    socket: noted(ABOUT, PATHS.socket),
    secret_file: noted('Service and signer prove by it who they are.', PATHS.secret),
    audit: { file: noted('Everything that was signed. Back up the folder.', PATHS.audit) },
    issuers: [noted("The id is part of the list's URL: never change it.", issuer)],
  })
}

function keyOf(
  { issuer, key, token_library, token_label, token, token_key }: Answers,
  hasPassphrase: boolean,
): Section {
  if (issuer === 'import' || key === 'file')
    return { file: PATHS.issuerKey, passphrase_file: hasPassphrase ? PATHS.issuerPassphrase : undefined }
  return {
    pkcs11: {
      library: quoted(token_library),
      token: quoted(token_label),
      pin_file: token === 'softhsm' ? PATHS.softhsmPin : PATHS.tokenPin,
      label: quoted(token_key),
    },
  }
}

/** Systemd's additions to the unit of a signer whose token is no file. */
function tokenDropIn({ token, token_address }: Answers): string {
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
