/**
 * The steps for the signer: the issuer's key and certificate come to where it reads them; then its configuration, what
 * its token needs of systemd, and a first check.
 */

import { PATHS, PLACES, type Place, SIGNER } from '../../installation/places.ts'
import { certificateIn, type Facts, type GivenCertificates, isThere } from '../facts.ts'
import { IMPORT_PASSPHRASE, pkcs12Words, stepKey } from '../given-certificates.ts'
import type { Answers } from '../questions.ts'
import { configText, noted, quoted, type Section } from './config-text.ts'
import { type Command, type Step, stepsOf } from './step.ts'

const ROOT_DAYS = '7300'
const ISSUER_DAYS = '1825'
const PASSPHRASE = 'CHANCERY_ROOT_PASSPHRASE'

const AWAY = 'Where a run that was stopped has left the key in the token, answer another token_key.'
const halfAndWhole = (file: string) => [file, `${file}.new`]

const hashOfType = (type: string) => (type === 'P-384' ? 'sha384' : type === 'P-521' ? 'sha512' : 'sha256')

/** The hash that fits the key of an issuer that exists already, or else the key to be made. */
function hashFor({ key_type }: Answers, certificate: string | undefined): 'sha256' | 'sha384' | 'sha512' {
  if (certificate === undefined) return hashOfType(key_type)
  const curve = certificateIn(PATHS.issuer, certificate).publicKey.asymmetricKeyDetails?.namedCurve
  return hashOfType({ secp384r1: 'P-384', secp521r1: 'P-521' }[curve ?? ''] ?? '')
}

export function issuerSteps(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  if (answers.issuer === 'import') return [...importedKey(answers, facts, given), ...certificates(given)]
  return [
    ...(answers.key === 'token' ? token(answers, facts) : []),
    ...newKey(answers, facts),
    ...(answers.issuer === 'new' ? rootAndIssuer(answers, facts) : certificates(given)),
  ]
}

const signer = (facts: Facts, as: Command['as'], words: readonly string[], env?: Command['env']): Command => ({
  words: [...(facts.programs.signer ?? []), ...words],
  as,
  ...(env && { env }),
})

function token(answers: Answers, facts: Facts): Step[] {
  const { token: kind, token_library, token_label, token_pin } = answers
  if (kind !== 'softhsm')
    return stepsOf(
      !isThere(facts, PATHS.tokenPin) && {
        title: 'Keep the PIN of the token where only the signer can read it',
        work: { kind: 'file', at: PLACES.tokenPin, text: `${token_pin}\n`, isSecret: true },
      },
    )
  const words = ['init-softhsm', PATHS.softhsm, '--label', token_label, '--library', token_library]
  return [
    {
      title: 'Make a SoftHSM token (for trials: its keys are in files)',
      work: {
        kind: 'run',
        command: signer(facts, 'chancery-signer', words),
        unless: PATHS.softhsmPin,
        leftovers: isThere(facts, PATHS.request) ? [] : [PATHS.softhsm],
      },
    },
    {
      title: 'Tell the signer where SoftHSM keeps its token',
      work: { kind: 'file', at: PLACES.signerEnv, text: `SOFTHSM2_CONF=${PATHS.softhsmConf}\n` },
    },
  ]
}

/** Variables that each use of the token needs. */
const tokenEnv = ({ issuer, key, token }: Answers): Command['env'] =>
  issuer !== 'import' && key === 'token' && token === 'softhsm' ? { SOFTHSM2_CONF: PATHS.softhsmConf } : {}

function newKey(answers: Answers, facts: Facts): Step[] {
  const { key, issuer_name, key_type, token_library, token_label, token_key } = answers
  const pin = answers.token === 'softhsm' ? PATHS.softhsmPin : PATHS.tokenPin
  const place = ['--library', token_library, '--token', token_label, '--label', token_key, '--pin-file', pin]
  const shape = ['--subject', issuer_name, '--type', key_type, '--hash', hashOfType(key_type), '--path-length', '0']
  const words = ['keygen', ...shape, '--out', PATHS.ceremony, ...(key === 'token' ? place : [])]
  return stepsOf(
    {
      title: `Make the issuer's key ${key === 'token' ? 'in the token' : '(a file of the signer)'} and a request for its certificate`,
      work: {
        kind: 'run',
        command: signer(facts, 'chancery-signer', words, tokenEnv(answers)),
        unless: `${PATHS.ceremony}/request.csr`,
        leftovers: isThere(facts, PATHS.request)
          ? []
          : ['key.pem', 'request.csr'].flatMap((name) => halfAndWhole(`${PATHS.ceremony}/${name}`)),
        ...(key === 'token' && { wayOut: AWAY }),
      },
    },
    key !== 'token' && {
      title: "Put the issuer's key where the signer reads it",
      work: { kind: 'copy', from: `${PATHS.ceremony}/key.pem`, to: PLACES.issuerKey, isMove: true },
    },
    {
      title: 'Put the request where everybody can read it',
      work: { kind: 'copy', from: `${PATHS.ceremony}/request.csr`, to: PLACES.request, isMove: false },
    },
  )
}

function rootAndIssuer(answers: Answers, facts: Facts): Step[] {
  const { root_name, root_passphrase, name_constraints, domains, networks, key_type } = answers
  const isEncrypted = root_passphrase !== ''
  const secret = isEncrypted ? { [PASSPHRASE]: root_passphrase } : {}
  const passphrase = isEncrypted ? ['--passphrase-env', PASSPHRASE] : []
  const each = (option: string, values: readonly string[]) => values.flatMap((value) => [option, value])
  const constraints = name_constraints
    ? [
        ...each('--permit-dns', domains),
        ...(networks.length > 0 ? each('--permit-ip', networks) : each('--exclude-ip', ['0.0.0.0/0', '::/0'])),
      ]
    : []
  const hash = ['--hash', hashOfType(key_type)]
  const root = ['keygen', '--subject', root_name, '--type', key_type, ...hash, '--root-days', ROOT_DAYS]
  const at = (name: string) => `${PATHS.rootCa}/${name}`
  const isMade = isThere(facts, at('root.pem')) || isThere(facts, PATHS.issuer)
  const sign = ['sign-request', PATHS.request, '--root', at('root.pem'), '--key', at('key.pem'), '--days', ISSUER_DAYS]
  return [
    {
      title: `Make a root in ${PATHS.rootCa}${isMade ? '' : `, its key ${isEncrypted ? 'encrypted' : 'NOT encrypted'}`}`,
      work: {
        kind: 'run',
        command: signer(facts, 'root', [...root, '--out', PATHS.rootCa, ...passphrase], secret),
        unless: isThere(facts, PATHS.issuer) ? PATHS.issuer : at('root.pem'),
        // A root that has signed an issuer is kept.
        leftovers: facts.files[at('issuer.pem')]
          ? []
          : ['key.pem', 'root.pem'].flatMap((name) => halfAndWhole(at(name))),
      },
    },
    {
      title: `Have the root sign the issuer${name_constraints ? `, for ${[...domains, ...networks].join(', ')} only` : ''}`,
      work: {
        kind: 'run',
        command: signer(
          facts,
          'root',
          [...sign, ...hash, '--out', at('issuer.pem'), ...constraints, ...passphrase],
          secret,
        ),
        unless: isThere(facts, PATHS.issuer) ? PATHS.issuer : at('issuer.pem'),
        leftovers: halfAndWhole(at('issuer.pem')),
      },
    },
    {
      title: "The root's certificate, where everybody can read it",
      work: { kind: 'copy', from: at('root.pem'), to: PLACES.root, isMove: false },
    },
    {
      title: "The issuer's certificate beside it",
      work: { kind: 'copy', from: at('issuer.pem'), to: PLACES.issuer, isMove: false },
    },
  ]
}

function certificates(given: GivenCertificates | undefined): Step[] {
  if (!given) return []
  const file = (title: string, at: Place, text: string): Step => ({
    title,
    work: { kind: 'file', at, text },
  })
  const root = given.chain.at(-1) ?? given.issuer
  return stepsOf(
    file('Write the root that clients trust', PLACES.root, root),
    given.chain.length > 0 && file('Write the certificates above the issuer', PLACES.chain, given.chain.join('')),
    // The issuer is written last: another run then asks for none of the three files.
    file("Write the issuer's certificate", PLACES.issuer, given.issuer),
  )
}

/** The key stays encrypted as it was; its passphrase goes where the signer reads it. */
function importedKey(answers: Answers, facts: Facts, given: GivenCertificates | undefined): Step[] {
  if (isThere(facts, PATHS.issuerKey)) return []
  const { import_from, import_path, import_key, import_passphrase } = answers
  const from = import_from === 'pem' ? import_key : stepKey(import_path)
  const text = `${import_passphrase}\n`
  const key: Step = {
    title: `Copy the key from ${from}`,
    work: { kind: 'copy', from, to: PLACES.issuerKey, isMove: false },
  }
  return stepsOf(
    import_passphrase !== '' && {
      title: 'Keep the passphrase of the key where only the signer can read it',
      work: { kind: 'file', at: PLACES.issuerPassphrase, text, isSecret: true },
    },
    ...(import_from === 'pkcs12' ? takenKey(import_path, import_passphrase, given?.isLegacy === true) : [key]),
  )
}

function takenKey(file: string, passphrase: string, isLegacy: boolean): Step[] {
  const taken = `${PATHS.folder}/issuer.key.taken`
  const words = [
    ...pkcs12Words(file, isLegacy),
    ...['-nocerts', ...(passphrase === '' ? ['-nodes'] : ['-passout', `env:${IMPORT_PASSPHRASE}`]), '-out', taken],
  ]
  return [
    {
      title: `Take the key out of ${file}`,
      work: {
        kind: 'run',
        command: { words, as: 'root', env: { [IMPORT_PASSPHRASE]: passphrase } },
        unless: PATHS.issuerKey,
      },
    },
    {
      title: "Give the key to the signer's user",
      work: { kind: 'copy', from: taken, to: PLACES.issuerKey, isMove: true },
    },
  ]
}

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
