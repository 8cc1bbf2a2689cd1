/** From answers and facts to the steps of a set-up. Pure: what is shown is what will be done. */

import { serviceCommand } from './administration.ts'
import type { Answers } from './answers.ts'
import { databaseSteps } from './database-steps.ts'
import { type Facts, type FreshSecrets, type GivenCertificates, isThere, PLACES, SERVICE, SIGNER } from './facts.ts'
import { hashFor, issuerSteps, tokenEnv } from './issuer-steps.ts'
import { proxyExample } from './proxy-example.ts'
import { serviceConfig, serviceEnv } from './service-config.ts'
import { signerConfig, tokenDropIn } from './signer-config.ts'
import { type Plan, type RunWork, type Step, stepsOf } from './step.ts'
import { unitSteps } from './unit-steps.ts'

interface Inputs {
  answers: Answers
  facts: Facts
  given: GivenCertificates | undefined
  fresh: FreshSecrets
  /** Start the programs and try them. */
  start: boolean
  /** Goes on though entries of the audit log were changed, or their key is lost. */
  acceptsAuditLog?: boolean
}

export function makePlan(inputs: Inputs): Plan {
  const { answers, facts, given, start } = inputs
  const begin = [...users(facts), ...folders(answers), ...secrets, ...issuerSteps(answers, facts, given)]
  const endsWithRequest = answers.issuer === 'request' && !given && !isThere(facts, PLACES.issuer)
  if (endsWithRequest) return { steps: begin, endsWithRequest }
  const canStart = start && facts.canStart
  const programs = [...signerSteps(inputs), ...databaseSteps(answers, facts), ...serviceSteps(inputs)]
  return { steps: [...begin, ...programs, ...(canStart ? unitSteps(facts) : [])], endsWithRequest }
}

function users({ users }: Facts): Step[] {
  return stepsOf(
    !users.includes(SIGNER) && {
      title: `User ${SIGNER}`,
      work: { kind: 'user', name: SIGNER, home: PLACES.signerState, groups: [] },
    },
    // The service's user is in the signer's group, and so reaches socket and secret.
    !users.includes(SERVICE) && {
      title: `User ${SERVICE}`,
      work: { kind: 'user', name: SERVICE, home: PLACES.serviceState, groups: [SIGNER] },
    },
  )
}

function folders({ tls }: Answers): Step[] {
  const folder = (path: string, mode: number, owner: 'root' | 'chancery' | 'chancery-signer'): Step => ({
    title: `Folder ${path}`,
    // The operator may have closed it to others.
    work: { kind: 'folder', path, mode, owner, group: owner, mayBeOther: path === PLACES.folder },
  })
  return [
    folder(PLACES.folder, 0o755, 'root'),
    folder(PLACES.signerState, 0o700, SIGNER),
    folder(PLACES.serviceState, 0o700, SERVICE),
    ...(tls === 'own' ? [folder(PLACES.tlsFolder, 0o700, SERVICE)] : []),
    folder(PLACES.signerRun, 0o750, SIGNER),
  ]
}

const secrets: readonly Step[] = [
  {
    title: 'A secret by which service and signer know each other',
    work: { kind: 'random', path: PLACES.secret, mode: 0o640, owner: 'root', group: SIGNER },
  },
]

function signerSteps({ answers, facts, given }: Inputs): Step[] {
  const isBelowOthers = given ? given.chain.length > 0 : isThere(facts, PLACES.chain)
  const chain = answers.issuer === 'new' ? PLACES.root : isBelowOthers ? PLACES.chain : undefined
  const text = signerConfig(answers, {
    chain,
    hasPassphrase: answers.import_passphrase !== '' || isThere(facts, PLACES.issuerPassphrase),
    hash: hashFor(answers, given?.issuer ?? facts.files[PLACES.issuer]),
  })
  const isRealToken = answers.issuer !== 'import' && answers.key === 'token' && answers.token !== 'softhsm'
  return stepsOf(
    {
      title: "The signer's configuration",
      work: { kind: 'file', path: PLACES.signerConfig, text, mode: 0o640, owner: 'root', group: SIGNER },
    },
    isRealToken && {
      title: 'What the signer may reach, for its token',
      work: { kind: 'file', path: PLACES.tokenDropIn, text: tokenDropIn(answers), mode: 0o644, owner: 'root' },
    },
    {
      title: "Check the signer's configuration, with a signature of its key",
      work: {
        kind: 'run',
        command: {
          words: [...(facts.programs.signer ?? []), '--validate-only', '-c', PLACES.signerConfig],
          as: SIGNER,
          env: tokenEnv(answers) ?? {},
        },
      },
    },
  )
}

function serviceSteps({ answers, facts, fresh, acceptsAuditLog = false }: Inputs): Step[] {
  const env = serviceEnv(answers)
  const example = answers.tls === 'proxy' ? proxyExample(answers, facts.deploy) : undefined
  const config = (...words: string[]): RunWork => ({ kind: 'run', command: serviceCommand(facts, ...words) })
  const former = facts.files[PLACES.config]
  const tokenSecret = tokenSecretIn(former)
  // A log that was begun under the key made of that secret goes on under it.
  const hasAuditKey = answers.console && (tokenSecret === undefined || former?.includes(PLACES.auditKey) === true)
  const text = serviceConfig(answers, tokenSecret ?? fresh.token, hasAuditKey)
  return stepsOf(
    {
      title: 'A secret that encrypts the keys of credentials',
      work: { kind: 'random', path: PLACES.eabKey, mode: 0o600, owner: SERVICE, group: SERVICE },
    },
    hasAuditKey && {
      title: "A secret that is the key of the audit log's chain",
      work: { kind: 'random', path: PLACES.auditKey, mode: 0o600, owner: SERVICE, group: SERVICE },
    },
    // Its secrets are asked for once only, so a file that is there is right.
    env !== undefined &&
      !isThere(facts, PLACES.serviceEnv) && {
        title: 'Passwords of the service, which only root can read',
        work: { kind: 'file', path: PLACES.serviceEnv, text: env, mode: 0o600, owner: 'root', isSecret: true },
      },
    {
      title: "The service's configuration",
      work: { kind: 'file', path: PLACES.config, text, mode: 0o640, owner: 'root', group: SERVICE },
    },
    example !== undefined && {
      title: `An example for ${answers.proxy}, to be put where the proxy reads it`,
      work: { kind: 'file', path: PLACES.proxyExample, text: example, mode: 0o644, owner: 'root' },
    },
    { title: "Check the service's configuration", work: config('--validate-only') },
    { title: 'Reach the database', work: config('db', 'migrate', '--plan') },
    { title: 'Bring the database to the schema of this release', work: config('db', 'migrate') },
    answers.console &&
      !acceptsAuditLog && {
        title: 'See that the audit log is whole',
        work: { ...config('audit', 'verify'), wayOut: LOST_KEY },
      },
    answers.console && {
      title: 'The first administrator',
      work: { kind: 'administrator', email: answers.admin_email },
    },
    answers.accounts === 'eab' && {
      title: 'A first credential for accounts',
      work: { kind: 'credential', kid: 'first', allow: allowed(answers) },
    },
  )
}

/** Comes before the first entry of the run: no key would prove entries under two keys. */
const LOST_KEY = `Where ${PLACES.config} or ${PLACES.auditKey} was lost, put back the one of the backup. If there is none, --accept-audit-log goes on: what is in the log stays unproved.`

const allowed = ({ domains, networks }: Answers) => [...domains.map((domain) => `*.${domain}`), ...networks]

/** Kept over repeated runs: with another one, everybody would be signed out. */
const tokenSecretIn = (config: string | undefined): string | undefined =>
  /^ {2}token_secret: "([^"]+)"$/m.exec(config ?? '')?.[1]
