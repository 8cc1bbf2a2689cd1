/** The table of questions, in the order in which they are asked. The prompt, the answers file and the manual follow it. */

import { isIP } from 'node:net'
import { type Answers, covers, hostOf, type Key } from './answers.ts'
import { type Facts, isThere, PLACES, waitsForCertificate } from './facts.ts'

export interface Question {
  key: Key
  text: string
  /** What an answer means, for somebody who has not read the manual. */
  about: string
  /** Words of a choice, each with what it means. */
  choices?: Readonly<Record<string, string>>
  /** Not shown while it is typed, and not kept in a file of answers. */
  isSecret?: true
  /** Absent: always asked. */
  when?(answers: Answers, facts: Facts): boolean
  /** Taken when the answer is left out; without it an answer is needed. */
  usual?(answers: Answers, facts: Facts): unknown
  /** @returns what is wrong with an answer beside the others */
  objection?(answers: Answers, facts: Facts): string | undefined
}

const domainOf = (answers: Answers) => {
  const host = hostOf(answers)
  const parent = host.slice(host.indexOf('.') + 1)
  return parent.includes('.') ? parent : host
}
const isNew = ({ issuer }: Answers) => issuer !== 'import'
const madeHere = ({ issuer }: Answers, facts: Facts) => issuer === 'new' && !isThere(facts, PLACES.issuer)
const inToken = (answers: Answers) => isNew(answers) && answers.key === 'token'
const realToken = (answers: Answers) => inToken(answers) && answers.token !== 'softhsm'
const isImport = ({ issuer }: Answers, facts: Facts) => issuer === 'import' && !isThere(facts, PLACES.issuer)
const isRemote = ({ database }: Answers) => database === 'remote'
const hasMail = ({ mail_host }: Answers) => mail_host !== ''

const PLACE: readonly Question[] = [
  {
    key: 'url',
    text: 'Public URL of the service',
    about:
      'Clients reach the service at this address, and it becomes part of every URL. It cannot be changed easily later.',
    objection: ({ url }) => (isIP(hostOf({ url })) ? 'takes a name, not an address' : undefined),
  },
  {
    key: 'tls',
    text: 'Who terminates TLS?',
    about: 'ACME is spoken over https only.',
    choices: {
      proxy: 'a proxy in front, such as nginx or HAProxy',
      own: 'the service, with a certificate that it issues to itself',
      files: 'the service, with a certificate that you have',
    },
    usual: () => 'proxy',
  },
  {
    key: 'proxy',
    text: 'Which proxy?',
    about: 'An example with your names is written for it. It runs on this host.',
    choices: { nginx: 'nginx', haproxy: 'HAProxy', other: 'another one' },
    when: ({ tls }) => tls === 'proxy',
    usual: () => 'nginx',
  },
  {
    key: 'proxy_certificate',
    text: 'Issue the first certificate of the proxy, too?',
    about: `Certificate and key go into ${PLACES.proxyCertificate}, which only root can read. A client on the proxy renews it.`,
    when: ({ tls }) => tls === 'proxy',
    usual: () => true,
  },
  {
    key: 'tls_certificate',
    text: 'File with the certificate and its chain, PEM',
    about: 'The user chancery has to be able to read it.',
    when: ({ tls }) => tls === 'files',
  },
  {
    key: 'tls_key',
    text: 'File with its key, PEM',
    about: 'The user chancery has to be able to read it.',
    when: ({ tls }) => tls === 'files',
  },
  {
    key: 'port',
    text: 'Port to listen on',
    about: 'Behind a proxy the service listens on 127.0.0.1 only.',
    usual: ({ tls, url }) => (tls === 'proxy' ? 8443 : Number(new URL(url).port || 443)),
  },
  {
    key: 'domains',
    text: 'Domains that may be issued',
    about: 'Each covers itself and every name below it. Service and signer refuse all others.',
    usual: (answers) => [domainOf(answers)],
    objection: (answers) =>
      answers.domains.length === 0
        ? 'needs at least one domain'
        : answers.tls === 'own' && !covers(answers.domains, hostOf(answers))
          ? `has to cover ${hostOf(answers)}, because the service issues a certificate for that name to itself`
          : undefined,
  },
  {
    key: 'networks',
    text: 'Networks whose addresses may be issued',
    about: 'Such as 10.0.0.0/8. Empty: no certificate has an IP address.',
    usual: () => [],
  },
]

const DATABASE: readonly Question[] = [
  {
    key: 'database',
    text: 'Where is PostgreSQL?',
    about: 'All that must last is in the database: accounts, orders, certificates, revocations.',
    choices: {
      local: 'on this host; role and database are made in it',
      remote: 'on another host, over TLS; role and database exist',
      trial: 'a small cluster of its own on this host, to try things out',
    },
    usual: () => 'local',
    objection: ({ database }, { postgres }) =>
      database !== 'remote' && postgres === undefined
        ? 'needs PostgreSQL, which is not on this host: apt install postgresql, then again'
        : undefined,
  },
  {
    key: 'database_hosts',
    text: 'Its host, or several of a cluster',
    about: 'The first that takes writes is used.',
    when: isRemote,
    objection: ({ database_hosts }) => (database_hosts.length === 0 ? 'needs at least one host' : undefined),
  },
  {
    key: 'database_port',
    text: 'Port of PostgreSQL',
    about: 'The first cluster of a Debian host has 5432; a trial takes a port that is free.',
    usual: ({ database }) => (database === 'trial' ? 5439 : 5432),
  },
  {
    key: 'database_name',
    text: 'Name of the database',
    about: 'It belongs to the role, and it is empty.',
    when: isRemote,
    usual: () => 'chancery',
  },
  {
    key: 'database_user',
    text: 'Name of the role',
    about: 'It owns the database.',
    when: isRemote,
    usual: () => 'chancery',
  },
  {
    key: 'database_password',
    text: 'Password of the role',
    about: `It goes into ${PLACES.serviceEnv}, which only root can read.`,
    isSecret: true,
    when: (answers, facts) => isRemote(answers) && !isThere(facts, PLACES.serviceEnv),
  },
  {
    key: 'database_ca',
    text: "File with the CA of the database's certificate, PEM",
    about: 'Empty: a public CA. The user chancery has to be able to read it.',
    when: isRemote,
    usual: () => '',
  },
]

const ISSUER: readonly Question[] = [
  {
    key: 'issuer',
    text: 'The CA that issues',
    about: 'An issuer signs certificates; a root signs issuers, and clients trust the root.',
    choices: {
      new: 'make a root and an issuer now',
      request: 'make a key now, and have another CA sign its request',
      import: 'take over an issuer that exists (PKCS #12, PEM, step-ca)',
    },
    usual: () => 'new',
    objection: (_, { programs }) =>
      programs.signer === undefined
        ? 'needs the signer, which is not on this host: apt install chancery-signer, then again'
        : undefined,
  },
  {
    key: 'key',
    text: "Where is the issuer's key kept?",
    about: 'The signer runs as a user of its own; the service never sees the key.',
    choices: { file: 'in a file of the signer', token: 'in an HSM or another PKCS #11 token' },
    when: isNew,
    usual: () => 'file',
  },
  {
    key: 'token',
    text: 'What kind of token?',
    about: 'It decides what the signer may reach.',
    choices: {
      softhsm: 'SoftHSM, to try things out: keys are in files',
      usb: 'on the USB, through a library of its vendor',
      network: 'on the network, through a library of its vendor',
    },
    when: inToken,
    usual: () => 'softhsm',
    objection: ({ token }, { softhsm }) =>
      token === 'softhsm' && softhsm === undefined
        ? 'needs SoftHSM, which is not on this host: apt install softhsm2, then again'
        : undefined,
  },
  {
    key: 'token_library',
    text: 'PKCS #11 library',
    about: "The vendor's shared library, such as /usr/lib/vendor/libpkcs11.so.",
    when: inToken,
    usual: ({ token }, { softhsm }) => (token === 'softhsm' ? softhsm : undefined),
  },
  {
    key: 'token_label',
    text: 'Label of the token',
    about: 'As it was initialized.',
    when: inToken,
    usual: ({ token }) => (token === 'softhsm' ? 'chancery' : undefined),
  },
  {
    key: 'token_address',
    text: 'IP address of the token',
    about: 'The only address that the signer may connect to.',
    when: (answers) => inToken(answers) && answers.token === 'network',
  },
  {
    key: 'token_pin',
    text: 'PIN of the token',
    about: `It goes into ${PLACES.tokenPin}, which only the signer can read.`,
    isSecret: true,
    when: (answers, facts) => realToken(answers) && !isThere(facts, PLACES.tokenPin),
  },
  {
    key: 'token_key',
    text: 'Label of the new key',
    about: 'No other key in the token may have it.',
    when: inToken,
    usual: () => 'issuing-1',
  },
  {
    key: 'key_type',
    text: 'Kind of key',
    about: 'P-256, P-384, P-521, RSA-3072 or RSA-4096. P-256 is fast and understood by every client.',
    when: isNew,
    usual: () => 'P-256',
  },
  {
    key: 'root_name',
    text: 'Name of the root',
    about: 'Administrators see it in the list of trusted CAs.',
    when: madeHere,
    usual: (answers) => `CN=${domainOf(answers)} Root CA`,
  },
  {
    key: 'root_passphrase',
    text: "Passphrase of the root's key",
    about: 'At least 12 characters; it is asked for whenever the root signs. Empty: the key is not encrypted.',
    isSecret: true,
    when: (answers, facts) => madeHere(answers, facts) && !isThere(facts, `${PLACES.rootCa}/root.pem`),
    usual: () => '',
    objection: ({ root_passphrase }) =>
      root_passphrase !== '' && root_passphrase.length < 12 ? 'has fewer than 12 characters' : undefined,
  },
  {
    key: 'issuer_name',
    text: 'Name of the issuer',
    about: 'A number in it leaves room for the next issuer.',
    when: isNew,
    usual: (answers) => `CN=${domainOf(answers)} Issuing CA 1`,
  },
  {
    key: 'name_constraints',
    text: "Write the domains and networks into the issuer's certificate?",
    about:
      'Clients then refuse any other name of this issuer, whatever happens to its key. More names later need a new issuer.',
    when: ({ issuer }) => issuer === 'new',
    usual: () => true,
  },
  {
    key: 'import_from',
    text: 'What form has the CA?',
    about: 'Certificate, key and root of an issuer that exists.',
    choices: {
      pkcs12: 'one PKCS #12 file (.p12, .pfx)',
      pem: 'PEM files',
      'step-ca': 'the folder of step-ca, with certs and secrets in it',
    },
    when: isImport,
    usual: () => 'pem',
    objection: ({ import_from }, { hasOpenssl }) =>
      import_from === 'pkcs12' && !hasOpenssl
        ? 'needs openssl, which is not on this host: apt install openssl'
        : undefined,
  },
  {
    key: 'import_path',
    text: 'Where is it?',
    about:
      'The PKCS #12 file, the PEM file with the certificate and those above it, or the folder (such as /root/.step).',
    when: isImport,
  },
  {
    key: 'import_key',
    text: 'PEM file with its key',
    about: 'It may be encrypted.',
    when: (answers, facts) => isImport(answers, facts) && answers.import_from === 'pem',
  },
  {
    key: 'import_passphrase',
    text: 'Passphrase of the key',
    about: `It goes into ${PLACES.issuerPassphrase}, which only the signer can read. Empty: the key is not encrypted.`,
    isSecret: true,
    when: isImport,
    usual: () => '',
  },
  {
    key: 'issuer_certificate',
    text: 'Certificate that the other CA has made from the request',
    about: `The request is ${PLACES.request}. A PEM file; it may hold the CAs above, too. Empty: it is not there yet.`,
    when: (answers, facts) => answers.issuer === 'request' && waitsForCertificate(facts),
    usual: () => '',
  },
  {
    key: 'issuer_root',
    text: 'PEM file with the root above it',
    about: 'Clients trust it. Empty: the file of the certificate holds it already.',
    when: (answers, facts) =>
      (answers.issuer === 'request' && answers.issuer_certificate !== '') ||
      (isImport(answers, facts) && answers.import_from !== 'step-ca'),
    usual: () => '',
  },
]

const OPERATION: readonly Question[] = [
  {
    key: 'accounts',
    text: 'Who may have an account?',
    about: 'An account orders certificates for names that it can prove.',
    choices: {
      eab: 'whoever has a credential from you (external account binding)',
      open: 'whoever can reach the service',
    },
    usual: () => 'eab',
  },
  {
    key: 'crl_url',
    text: 'Where clients fetch the list of revoked certificates',
    about: 'Plain http, as clients expect. It becomes part of every certificate. none: no list is made.',
    usual: (answers) => `http://${hostOf(answers)}`,
  },
  {
    key: 'mail_host',
    text: 'Mail server',
    about: 'Warns owners of certificates that expire. Empty: no mail is sent.',
    usual: () => '',
  },
  { key: 'mail_port', text: 'Its port', about: '587 or 465.', when: hasMail, usual: () => 587 },
  { key: 'mail_from', text: 'Sender of mails', about: 'An address that the server accepts.', when: hasMail },
  { key: 'mail_user', text: 'User name at the mail server', about: 'Empty: no login.', when: hasMail, usual: () => '' },
  {
    key: 'mail_password',
    text: 'Password at the mail server',
    about: `It goes into ${PLACES.serviceEnv}.`,
    isSecret: true,
    when: (answers, facts) => answers.mail_user !== '' && !isThere(facts, PLACES.serviceEnv),
  },
  {
    key: 'console',
    text: 'Offer the console and the API for administrators?',
    about: 'On 127.0.0.1 only; from elsewhere through ssh -L or a proxy.',
    usual: () => true,
  },
  {
    key: 'admin_email',
    text: 'Mail address of the first administrator',
    about: 'The user name is admin.',
    when: ({ console }) => console,
  },
  {
    key: 'admin_port',
    text: 'Port of the console',
    about: 'On 127.0.0.1.',
    when: ({ console }) => console,
    usual: () => 8444,
    objection: ({ admin_port, port }) => (admin_port === port ? 'is the port of the service' : undefined),
  },
]

export const QUESTIONS: readonly Question[] = [...PLACE, ...DATABASE, ...ISSUER, ...OPERATION]
