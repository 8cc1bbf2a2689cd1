/**
 * The questions of a set-up, in the order in which they are asked: one row is all that an answer is.
 *
 * The prompt, the file of answers, its check and the manual follow this table; `Answers` is inferred from it.
 */

import { existsSync } from 'node:fs'
import { PATHS } from '../installation/places.ts'
import { hostOf, isIpAddress } from '../shared/lib/host.ts'
import {
  choice,
  crlUrlOrNone,
  databaseName,
  dnsNameOrEmpty,
  domains,
  file,
  fileOrEmpty,
  hostOrEmpty,
  hosts,
  ipAddress,
  type Kind,
  keyLabel,
  mailAddress,
  networks,
  oneOf,
  port,
  publicUrl,
  secret,
  subject,
  tokenLabel,
  userNameOrEmpty,
  yesOrNo,
} from './answer-kinds.ts'
import { type Facts, isThere, outsideIssuer, portObjection, waitsForCertificate } from './facts.ts'

type When = (answers: Answers, facts: Facts) => boolean
type Wrong = string | undefined
/** The usual answer follows from others; undefined where an answer is needed. */
type Usual<T> = (answers: Answers, facts: Facts) => T | undefined

interface Row<T> {
  text: string
  /** The meaning of an answer, for an operator who has not read the manual. */
  about: string
  /** The answer is not shown while it is typed, and not kept in a file of answers. */
  isSecret?: true
  /** An empty answer means that it comes later, so it is asked for at each run. */
  mayFollow?: true
  /** A question without a condition is always asked. */
  when?: When
  /** The answer that is taken when none is given; without it an answer is needed. */
  usual?: NoInfer<T> | Usual<NoInfer<T>>
  /** The answer where the question is not asked, and neither `usual` nor the kind of answer says it. */
  otherwise?: NoInfer<T>
  /** @returns what is wrong with the answer beside the others */
  objection?: (answers: Answers, facts: Facts) => Wrong
}

interface Question<K extends string, T> extends Row<T> {
  key: K
  takes: Kind<T>
}

/** Functions in a row name the types of parameters and results, because `Answers` comes from the table itself. */
const question = <const K extends string, const T>(key: K, takes: Kind<T>, row: Row<T>): Question<K, T> => ({
  key,
  takes,
  ...row,
})

const behindProxy: When = ({ tls }) => tls === 'proxy'
const hasOwnFiles: When = ({ tls }) => tls === 'files'
const isRemote: When = ({ database }) => database === 'remote'
const needsDatabasePassword: When = (answers, facts) => isRemote(answers, facts) && !isThere(facts, PATHS.serviceEnv)

const hasRoot: When = ({ issuer }) => issuer === 'new'
const isNew: When = ({ issuer }) => issuer !== 'import'
const madeHere: When = ({ issuer }, facts) => issuer === 'new' && !isThere(facts, PATHS.issuer)
const needsRootPassphrase: When = (answers, facts) =>
  madeHere(answers, facts) && !isThere(facts, `${PATHS.rootCa}/issuer.pem`)
const inToken: When = ({ issuer, key }) => issuer !== 'import' && key === 'token'
const isNetworkToken: When = (answers, facts) => inToken(answers, facts) && answers.token === 'network'
const needsTokenPin: When = (answers, facts) =>
  inToken(answers, facts) && answers.token !== 'softhsm' && !isThere(facts, PATHS.tokenPin)
const isImport: When = ({ issuer }, facts) => issuer === 'import' && !isThere(facts, PATHS.issuer)
const isPemImport: When = (answers, facts) => isImport(answers, facts) && answers.import_from === 'pem'
const waitsForAnswer: When = ({ issuer }, facts) => issuer === 'request' && waitsForCertificate(facts)
const mayNameRoot: When = (answers, facts) =>
  (answers.issuer === 'request' && answers.issuer_certificate !== '') ||
  (isImport(answers, facts) && answers.import_from !== 'step-ca')

const hasMail: When = ({ mail_host }) => mail_host !== ''
const needsMailPassword: When = ({ mail_user }, facts) => mail_user !== '' && !isThere(facts, PATHS.serviceEnv)
const hasConsole: When = ({ console }) => console

/** The domain whose names the service issues, as far as its own name says it. */
function domainOf({ url }: Answers): string {
  const host = hostOf(url)
  const parent = host.slice(host.indexOf('.') + 1)
  return parent.includes('.') ? parent : host
}

const listeningPort: Usual<number> = ({ tls, url }) => (tls === 'proxy' ? 8443 : Number(new URL(url).port || 443))
const ownDomain: Usual<string[]> = (answers) => [domainOf(answers)]
const runningPort: Usual<number> = ({ database }, { postgresPorts }) =>
  database === 'trial' ? 5439 : database === 'local' ? (postgresPorts[0] ?? 5432) : 5432
const softhsmLibrary: Usual<string> = ({ token }, { softhsm }) => (token === 'softhsm' ? softhsm : undefined)
const softhsmLabel: Usual<string> = ({ token }) => (token === 'softhsm' ? 'chancery' : undefined)
const rootName: Usual<string> = (answers) => `CN=${domainOf(answers)} Root CA`
const issuerName: Usual<string> = (answers) => `CN=${domainOf(answers)} Issuing CA 1`
const ownCrlUrl: Usual<string> = (answers) => `http://${hostOf(answers.url)}`

/** Whether the names that may be issued include this one. */
export const covers = (domains: readonly string[], name: string): boolean =>
  domains.some((domain) => name === domain || name.endsWith(`.${domain}`))

const TABLE = [
  question('url', publicUrl, {
    text: 'Public URL of the service',
    about:
      'Clients reach the service at this address, and it becomes part of every URL. It cannot be changed easily later.',
    objection: ({ url }: Answers): Wrong =>
      isIpAddress(hostOf(url))
        ? 'takes a name, not an address'
        : hostOf(url).includes('.')
          ? undefined
          : 'takes a whole name with its domain, such as https://acme.corp.example: certificates are for such names',
  }),
  question(
    'tls',
    choice({
      proxy: 'a proxy in front, such as nginx or HAProxy',
      own: 'the service, with a certificate that it issues to itself',
      files: 'the service, with a certificate that you have',
    }),
    {
      text: 'Who terminates TLS?',
      about: 'ACME is spoken over https only.',
      usual: 'proxy',
    },
  ),
  question('proxy', choice({ nginx: 'nginx', haproxy: 'HAProxy', other: 'another one' }), {
    text: 'Which proxy?',
    about: 'An example with your names is written for it. It runs on this host.',
    when: behindProxy,
    usual: 'nginx',
  }),
  question('proxy_certificate', yesOrNo, {
    text: 'Issue the first certificate of the proxy, too?',
    about: `Certificate and key go into ${PATHS.proxyCertificate}, which only root can read. A client on the proxy renews it.`,
    when: behindProxy,
    usual: true,
  }),
  question('tls_certificate', file, {
    text: 'File with the certificate and its chain, PEM',
    about: 'The user chancery has to be able to read it.',
    when: hasOwnFiles,
  }),
  question('tls_key', file, {
    text: 'File with its key, PEM',
    about: 'The user chancery has to be able to read it.',
    when: hasOwnFiles,
  }),
  question('port', port, {
    otherwise: 8443,
    text: 'Port to listen on',
    about: 'Where the service listens: on 127.0.0.1 only behind a proxy, else on every address.',
    usual: listeningPort,
    objection: ({ port: listens }: Answers, facts: Facts): Wrong => portObjection(listens, facts),
  }),
  question('domains', domains, {
    text: 'Domains that may be issued',
    about: 'Each covers itself and every name below it. Service and signer refuse all others.',
    usual: ownDomain,
    objection: (answers: Answers, facts: Facts): Wrong => {
      if (answers.domains.length === 0) return 'needs at least one domain'
      const host = hostOf(answers.url)
      return answers.tls === 'own' && !covers(answers.domains, host)
        ? `has to cover ${host}, because the service issues a certificate for that name to itself`
        : outsideIssuer(answers.domains, facts.files[PATHS.issuer])
    },
  }),
  question('networks', networks, {
    text: 'Networks whose addresses may be issued',
    about: 'Such as 10.0.0.0/8. Empty: no certificate has an IP address.',
    usual: [],
  }),

  question(
    'database',
    choice({
      local: 'on this host; role and database are made in it',
      remote: 'on another host, over TLS; role and database exist',
      trial: 'a small cluster of its own on this host, to try things out',
    }),
    {
      text: 'Where is PostgreSQL?',
      about: 'All that must last is in the database: accounts, orders, certificates, revocations.',
      usual: 'local',
      objection: ({ database }: Answers, { postgres }: Facts): Wrong =>
        database !== 'remote' && postgres === undefined
          ? 'needs PostgreSQL, which is not on this host: apt install postgresql in another terminal, then answer again'
          : undefined,
    },
  ),
  question('database_hosts', hosts, {
    text: 'Its host, or several of a cluster',
    about: 'The first that takes writes is used.',
    when: isRemote,
    objection: ({ database_hosts }: Answers): Wrong =>
      database_hosts.length === 0 ? 'needs at least one host' : undefined,
  }),
  question('database_port', port, {
    otherwise: 5432,
    text: 'Port of PostgreSQL',
    about: 'The first cluster of a Debian host has 5432; a trial takes a port that is free.',
    usual: runningPort,
  }),
  question('database_name', databaseName, {
    text: 'Name of the database',
    about: 'It belongs to the role, and it is empty.',
    when: isRemote,
    usual: 'chancery',
  }),
  question('database_user', databaseName, {
    text: 'Name of the role',
    about: 'It owns the database.',
    when: isRemote,
    usual: 'chancery',
  }),
  question('database_password', secret, {
    text: 'Password of the role',
    about: `It goes into ${PATHS.serviceEnv}, which only root can read.`,
    isSecret: true,
    when: needsDatabasePassword,
  }),
  question('database_ca', fileOrEmpty, {
    text: "File with the CA of the database's certificate, PEM",
    about: 'Empty: a public CA. The user chancery has to be able to read it.',
    when: isRemote,
    usual: '',
  }),

  question(
    'issuer',
    choice({
      new: 'make a root and an issuer now',
      request: 'make a key now, and have another CA sign its request',
      import: 'take over an issuer that exists (PKCS #12, PEM, step-ca)',
    }),
    {
      text: 'The CA that issues',
      about: 'An issuer signs certificates; a root signs issuers, and clients trust the root.',
      usual: 'new',
      objection: (_: Answers, { programs }: Facts): Wrong =>
        programs.signer === undefined
          ? 'needs the signer, which is not on this host: install it in another terminal, then answer again'
          : undefined,
    },
  ),
  question('key', choice({ file: 'in a file of the signer', token: 'in an HSM or another PKCS #11 token' }), {
    text: "Where is the issuer's key kept?",
    about: 'The signer runs as a user of its own; the service never sees the key.',
    when: isNew,
    usual: 'file',
  }),
  question(
    'token',
    choice({
      softhsm: 'SoftHSM, to try things out: keys are in files',
      usb: 'on the USB, through a library of its vendor',
      network: 'on the network, through a library of its vendor',
    }),
    {
      text: 'What kind of token?',
      about: 'It decides what the signer may reach.',
      when: inToken,
      usual: 'softhsm',
      objection: ({ token }: Answers, { softhsm }: Facts): Wrong =>
        token === 'softhsm' && softhsm === undefined
          ? 'needs SoftHSM, which is not on this host: apt install softhsm2 in another terminal, then answer again'
          : undefined,
    },
  ),
  question('token_library', file, {
    text: 'PKCS #11 library',
    about: "The vendor's shared library, such as /usr/lib/vendor/libpkcs11.so. SoftHSM's is known.",
    when: inToken,
    usual: softhsmLibrary,
    objection: ({ token_library }: Answers): Wrong => (existsSync(token_library) ? undefined : 'is not on this host'),
  }),
  question('token_label', tokenLabel, {
    text: 'Label of the token',
    about: 'As it was initialized; a token of SoftHSM is made with this label.',
    when: inToken,
    usual: softhsmLabel,
  }),
  question('token_address', ipAddress, {
    text: 'IP address of the token',
    about: 'The only address that the signer may connect to.',
    when: isNetworkToken,
  }),
  question('token_pin', secret, {
    text: 'PIN of the token',
    about: `It goes into ${PATHS.tokenPin}, which only the signer can read.`,
    isSecret: true,
    when: needsTokenPin,
  }),
  question('token_key', keyLabel, {
    text: 'Label of the new key',
    about: 'No other key in the token may have it.',
    when: inToken,
    usual: 'issuing-1',
  }),
  question('key_type', oneOf('P-256', 'P-384', 'P-521', 'RSA-3072', 'RSA-4096'), {
    text: 'Kind of key',
    about: 'P-256, P-384, P-521, RSA-3072 or RSA-4096. P-256 is fast and understood by every client.',
    when: isNew,
    usual: 'P-256',
  }),
  question('root_name', subject, {
    text: 'Name of the root',
    about: 'Administrators see it in the list of trusted CAs.',
    when: madeHere,
    usual: rootName,
  }),
  question('root_passphrase', secret, {
    text: "Passphrase of the root's key",
    about: 'At least 12 characters; it is asked for whenever the root signs. Empty: the key is not encrypted.',
    isSecret: true,
    when: needsRootPassphrase,
    usual: '',
    objection: ({ root_passphrase }: Answers): Wrong =>
      root_passphrase !== '' && root_passphrase.length < 12 ? 'has fewer than 12 characters' : undefined,
  }),
  question('issuer_name', subject, {
    text: 'Name of the issuer',
    about: 'A number in it leaves room for the next issuer.',
    when: isNew,
    usual: issuerName,
  }),
  question('name_constraints', yesOrNo, {
    text: "Write the domains and networks into the issuer's certificate?",
    about:
      'Clients then refuse any other name of this issuer, whatever happens to its key. More names later need a new issuer.',
    when: hasRoot,
    usual: true,
  }),
  question(
    'import_from',
    choice({
      pkcs12: 'one PKCS #12 file (.p12, .pfx)',
      pem: 'PEM files',
      'step-ca': 'the folder of step-ca, with certs and secrets in it',
    }),
    {
      text: 'What form has the CA?',
      about: 'Certificate, key and root of an issuer that exists.',
      when: isImport,
      usual: 'pem',
      objection: ({ import_from }: Answers, { hasOpenssl }: Facts): Wrong =>
        import_from === 'pkcs12' && !hasOpenssl
          ? 'needs openssl, which is not on this host: apt install openssl'
          : undefined,
    },
  ),
  question('import_path', file, {
    text: 'Where is it?',
    about:
      'The PKCS #12 file, the PEM file with the certificate and those above it, or the folder (such as /root/.step).',
    when: isImport,
  }),
  question('import_key', file, {
    text: 'PEM file with its key',
    about: 'It may be encrypted.',
    when: isPemImport,
  }),
  question('import_passphrase', secret, {
    text: 'Passphrase of the key',
    about: `It goes into ${PATHS.issuerPassphrase}, which only the signer can read. Empty: the key is not encrypted.`,
    isSecret: true,
    when: isImport,
    usual: '',
  }),
  question('issuer_certificate', fileOrEmpty, {
    text: 'Certificate that the other CA has made from the request',
    about: `The request is ${PATHS.request}. A PEM file; it may hold the CAs above, too. Empty: it is not there yet.`,
    mayFollow: true,
    when: waitsForAnswer,
    usual: '',
  }),
  question('issuer_root', fileOrEmpty, {
    text: 'PEM file with the root above it',
    about: 'Clients trust it. Empty: the file of the certificate holds it already.',
    when: mayNameRoot,
    usual: '',
  }),

  question(
    'accounts',
    choice({
      eab: 'whoever has a credential from you (external account binding)',
      open: 'whoever can reach the service',
    }),
    {
      text: 'Who may have an account?',
      about: 'An account orders certificates for names that it can prove.',
      usual: 'eab',
    },
  ),
  question('caa_identity', dnsNameOrEmpty, {
    text: 'Name of this service in CAA records',
    about: 'Where DNS has CAA records for a name, they then have to name it. Empty: CAA records are not looked at.',
    usual: '',
  }),
  question('crl_url', crlUrlOrNone, {
    text: 'Where clients fetch the list of revoked certificates',
    about:
      'Plain http, as clients expect. It becomes part of every certificate. Without a proxy the service listens on this port, too. none: no list is made.',
    usual: ownCrlUrl,
    objection: ({ crl_url, tls }: Answers, facts: Facts): Wrong =>
      tls === 'proxy' || crl_url === 'none' ? undefined : portObjection(Number(new URL(crl_url).port || 80), facts),
  }),
  question('mail_host', hostOrEmpty, {
    text: 'Mail server',
    about: 'Warns owners of certificates that expire. Empty: no mail is sent.',
    usual: '',
  }),
  question('mail_port', port, { text: 'Its port', about: '587 or 465.', when: hasMail, usual: 587 }),
  question('mail_from', mailAddress, {
    text: 'Sender of mails',
    about: 'An address that the server accepts.',
    when: hasMail,
  }),
  question('mail_user', userNameOrEmpty, {
    text: 'User name at the mail server',
    about: 'Empty: no login.',
    when: hasMail,
    usual: '',
  }),
  question('mail_password', secret, {
    text: 'Password at the mail server',
    about: `It goes into ${PATHS.serviceEnv}.`,
    isSecret: true,
    when: needsMailPassword,
  }),
  question('console', yesOrNo, {
    text: 'Offer the console and the API for administrators?',
    about: 'On 127.0.0.1 only; from elsewhere through ssh -L or a proxy.',
    usual: true,
  }),
  question('admin_email', mailAddress, {
    text: 'Mail address of the first administrator',
    about: 'The user name is admin.',
    when: hasConsole,
  }),
  question('admin_port', port, {
    text: 'Port of the console',
    about: 'On 127.0.0.1.',
    when: hasConsole,
    usual: 8444,
    objection: ({ admin_port, port }: Answers, facts: Facts): Wrong =>
      admin_port === port ? 'is the port of the service' : portObjection(admin_port, facts),
  }),
]

type AnswersOf<R extends Question<string, unknown>> = {
  [Q in R as Q['key']]: Q extends Question<string, infer T> ? T : never
}
/** An interface, which TypeScript resolves late: the rows above name it. */
export interface Answers extends AnswersOf<(typeof TABLE)[number]> {}
export type Key = keyof Answers & string

export type AnyQuestion = Question<Key, unknown>

export const QUESTIONS: readonly AnyQuestion[] = TABLE

/** The usual answer; undefined where an answer is needed. */
export const usualAnswer = ({ usual }: AnyQuestion, answers: Answers, facts: Facts): unknown =>
  typeof usual === 'function' ? usual(answers, facts) : usual

/** The answers before the first question. */
export const NOT_ASKED: Answers = Object.fromEntries(
  QUESTIONS.map(({ key, otherwise, usual, takes }) => [
    key,
    otherwise ?? (typeof usual === 'function' ? undefined : usual) ?? takes.empty,
  ]),
) as unknown as Answers
