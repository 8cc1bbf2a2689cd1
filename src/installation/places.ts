/**
 * The files and folders of an installation: where they are, who owns them, and who may read them.
 *
 * `chancery setup` makes them, `chancery doctor` compares with them, and the Debian packages are rendered from them.
 */

/** The users of both programs have the names of their units. */
export const SERVICE = 'chancery'
export const SIGNER = 'chancery-signer'

export type Owner = 'root' | typeof SERVICE | typeof SIGNER

export interface Place {
  path: string
  mode: number
  owner: Owner
  group: Owner
  /** The program that makes it first. Where nothing is started, setup makes what systemd would make. */
  by: 'setup' | 'systemd' | 'package' | 'signer' | 'service' | 'operator'
  /** Operators copy this file to its place by hand, too; then `deploy/rights.conf` sets its rights. */
  isCopied?: true
}

/** Its owner alone reads such a file. */
export const CLOSED = 0o600
export const CLOSED_FOLDER = 0o700

const FOR_ALL = { mode: 0o644, owner: 'root', group: 'root' } as const
const FOR_ROOT = { mode: CLOSED, owner: 'root', group: 'root' } as const
/** The programs read these files and cannot change them. */
const READ_BY_SERVICE = { mode: 0o640, owner: 'root', group: SERVICE } as const
const READ_BY_SIGNER = { mode: 0o640, owner: 'root', group: SIGNER } as const
const OF_SERVICE = { mode: CLOSED, owner: SERVICE, group: SERVICE } as const
const OF_SIGNER = { mode: CLOSED, owner: SIGNER, group: SIGNER } as const
const FOLDER_OF_SERVICE = { mode: CLOSED_FOLDER, owner: SERVICE, group: SERVICE } as const
const FOLDER_OF_SIGNER = { mode: CLOSED_FOLDER, owner: SIGNER, group: SIGNER } as const

export const PLACES = {
  folder: { path: '/etc/chancery', mode: 0o755, owner: 'root', group: 'root', by: 'package' },
  config: { path: '/etc/chancery/config.yaml', ...READ_BY_SERVICE, by: 'setup', isCopied: true },
  signerConfig: { path: '/etc/chancery/signer.yaml', ...READ_BY_SIGNER, by: 'setup', isCopied: true },
  serviceEnv: { path: '/etc/chancery/service.env', ...FOR_ROOT, by: 'setup' },
  signerEnv: { path: '/etc/chancery/signer.env', ...FOR_ROOT, by: 'setup' },
  secret: { path: '/etc/chancery/signer.secret', ...READ_BY_SIGNER, by: 'setup', isCopied: true },
  eabKey: { path: '/etc/chancery/eab.key', ...OF_SERVICE, by: 'setup' },
  auditKey: { path: '/etc/chancery/audit.key', ...OF_SERVICE, by: 'setup' },
  root: { path: '/etc/chancery/root.pem', ...FOR_ALL, by: 'setup' },
  chain: { path: '/etc/chancery/chain.pem', ...FOR_ALL, by: 'setup' },
  issuer: { path: '/etc/chancery/issuer.pem', ...FOR_ALL, by: 'setup' },
  issuerKey: { path: '/etc/chancery/issuer.key', ...OF_SIGNER, by: 'setup', isCopied: true },
  issuerPassphrase: { path: '/etc/chancery/issuer.passphrase', ...OF_SIGNER, by: 'setup' },
  // systemd reads it as root and hands it over (deploy/systemd/hsm.conf).
  pinForUnit: { path: '/etc/chancery/signer.pin', ...FOR_ROOT, by: 'operator', isCopied: true },
  answers: { path: '/etc/chancery/setup.yaml', ...FOR_ROOT, by: 'setup' },
  request: { path: '/etc/chancery/request.csr', ...FOR_ALL, by: 'setup' },
  proxyExample: { path: '/etc/chancery/proxy.example.conf', ...FOR_ALL, by: 'setup' },
  proxyCertificate: { path: '/etc/chancery/proxy.pem', ...FOR_ROOT, by: 'setup' },
  serviceState: { path: '/var/lib/chancery', ...FOLDER_OF_SERVICE, by: 'systemd' },
  tlsFolder: { path: '/var/lib/chancery/tls', ...FOLDER_OF_SERVICE, by: 'setup' },
  decisions: { path: '/var/lib/chancery/decisions.jsonl', ...OF_SERVICE, by: 'service' },
  signerState: { path: '/var/lib/chancery-signer', ...FOLDER_OF_SIGNER, by: 'systemd' },
  audit: { path: '/var/lib/chancery-signer/audit.jsonl', mode: 0o640, owner: SIGNER, group: SIGNER, by: 'signer' },
  ceremony: { path: '/var/lib/chancery-signer/ceremony', ...FOLDER_OF_SIGNER, by: 'signer' },
  softhsm: { path: '/var/lib/chancery-signer/softhsm', ...FOLDER_OF_SIGNER, by: 'signer' },
  softhsmConf: { path: '/var/lib/chancery-signer/softhsm/softhsm2.conf', ...OF_SIGNER, by: 'signer' },
  softhsmPin: { path: '/var/lib/chancery-signer/softhsm/pin', ...OF_SIGNER, by: 'signer' },
  tokenPin: { path: '/var/lib/chancery-signer/token.pin', ...OF_SIGNER, by: 'setup' },
  // The service's user is in the signer's group, and so reaches the socket.
  signerRun: { path: '/run/chancery-signer', mode: 0o750, owner: SIGNER, group: SIGNER, by: 'systemd' },
  socket: { path: '/run/chancery-signer/signer.sock', mode: 0o660, owner: SIGNER, group: SIGNER, by: 'signer' },
  serviceUnit: { path: '/etc/systemd/system/chancery.service', ...FOR_ALL, by: 'setup' },
  signerUnit: { path: '/etc/systemd/system/chancery-signer.service', ...FOR_ALL, by: 'setup' },
  tokenDropIn: { path: '/etc/systemd/system/chancery-signer.service.d/hsm.conf', ...FOR_ALL, by: 'setup' },
  rootCa: { path: '/root/chancery-root', mode: CLOSED_FOLDER, owner: 'root', group: 'root', by: 'signer' },
  secrets: { path: '/root/chancery-secrets.txt', ...FOR_ROOT, by: 'setup' },
  keptAnswers: { path: '/root/chancery-answers.yaml', ...FOR_ROOT, by: 'setup' },
} as const satisfies Record<string, Place>

export type PlaceName = keyof typeof PLACES

/** The paths alone, for texts and command lines. */
export const PATHS = Object.fromEntries(Object.entries(PLACES).map(([name, { path }]) => [name, path])) as Readonly<
  Record<PlaceName, string>
>

/** Whether the group or others may do more than the wanted mode lets them. */
export const tooOpen = (wanted: number, actual: number): boolean => (actual & ~wanted & 0o077) !== 0

/** Whether users other than the owner may change the file, or what is in the folder. */
export const changeableByOthers = (mode: number): boolean => (mode & 0o022) !== 0

/** Whether users outside the group may do anything with it. */
export const openToAll = (mode: number): boolean => (mode & 0o007) !== 0

export const readableByAll = (mode: number): boolean => (mode & 0o004) !== 0
