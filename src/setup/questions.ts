/** The table of questions, in the order in which they are asked. The prompt, the answers file and the manual follow it. */

import { hostOf, isIpAddress } from '../shared/lib/host.ts'
import { type Answers, covers } from './answers.ts'
import { isThere, PLACES, portObjection } from './facts.ts'
import { outsideIssuer } from './issuer-limits.ts'
import { ISSUER_QUESTIONS } from './issuer-questions.ts'
import { domainOf, type Question } from './question.ts'

const isRemote = ({ database }: Answers) => database === 'remote'
const hasMail = ({ mail_host }: Answers) => mail_host !== ''

const PLACE: readonly Question[] = [
  {
    key: 'url',
    text: 'Public URL of the service',
    about:
      'Clients reach the service at this address, and it becomes part of every URL. It cannot be changed easily later.',
    objection: ({ url }) =>
      isIpAddress(hostOf(url))
        ? 'takes a name, not an address'
        : hostOf(url).includes('.')
          ? undefined
          : 'takes a whole name with its domain, such as https://acme.corp.example: certificates are for such names',
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
    about: 'Where the service listens: on 127.0.0.1 only behind a proxy, else on every address.',
    usual: ({ tls, url }) => (tls === 'proxy' ? 8443 : Number(new URL(url).port || 443)),
    objection: ({ port }, facts) => portObjection(port, facts),
  },
  {
    key: 'domains',
    text: 'Domains that may be issued',
    about: 'Each covers itself and every name below it. Service and signer refuse all others.',
    usual: (answers) => [domainOf(answers)],
    objection: (answers, facts) => {
      if (answers.domains.length === 0) return 'needs at least one domain'
      const host = hostOf(answers.url)
      return answers.tls === 'own' && !covers(answers.domains, host)
        ? `has to cover ${host}, because the service issues a certificate for that name to itself`
        : outsideIssuer(answers, facts)
    },
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
        ? 'needs PostgreSQL, which is not on this host: apt install postgresql in another terminal, then answer again'
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
    usual: ({ database }, { postgresPorts }) =>
      database === 'trial' ? 5439 : database === 'local' ? (postgresPorts[0] ?? 5432) : 5432,
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
    key: 'caa_identity',
    text: 'Name of this service in CAA records',
    about: 'Where DNS has CAA records for a name, they then have to name it. Empty: CAA records are not looked at.',
    usual: () => '',
  },
  {
    key: 'crl_url',
    text: 'Where clients fetch the list of revoked certificates',
    about:
      'Plain http, as clients expect. It becomes part of every certificate. Without a proxy the service listens on this port, too. none: no list is made.',
    usual: (answers) => `http://${hostOf(answers.url)}`,
    objection: ({ crl_url, tls }, facts) =>
      tls === 'proxy' || crl_url === 'none' ? undefined : portObjection(Number(new URL(crl_url).port || 80), facts),
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
    objection: ({ admin_port, port }, facts) =>
      admin_port === port ? 'is the port of the service' : portObjection(admin_port, facts),
  },
]

export const QUESTIONS: readonly Question[] = [...PLACE, ...DATABASE, ...ISSUER_QUESTIONS, ...OPERATION]
