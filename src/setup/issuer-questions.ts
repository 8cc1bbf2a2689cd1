/** The questions about the CA: its key, its certificate, and who has signed that. */

import { existsSync } from 'node:fs'
import type { Answers } from './answers.ts'
import { type Facts, isThere, PLACES, waitsForCertificate } from './facts.ts'
import { domainOf, type Question } from './question.ts'

const isNew = ({ issuer }: Answers) => issuer !== 'import'
const madeHere = ({ issuer }: Answers, facts: Facts) => issuer === 'new' && !isThere(facts, PLACES.issuer)
const inToken = (answers: Answers) => isNew(answers) && answers.key === 'token'
const realToken = (answers: Answers) => inToken(answers) && answers.token !== 'softhsm'
const isImport = ({ issuer }: Answers, facts: Facts) => issuer === 'import' && !isThere(facts, PLACES.issuer)
export const ISSUER_QUESTIONS: readonly Question[] = [
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
        ? 'needs the signer, which is not on this host: install it in another terminal, then answer again'
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
        ? 'needs SoftHSM, which is not on this host: apt install softhsm2 in another terminal, then answer again'
        : undefined,
  },
  {
    key: 'token_library',
    text: 'PKCS #11 library',
    about: "The vendor's shared library, such as /usr/lib/vendor/libpkcs11.so. SoftHSM's is known.",
    when: inToken,
    usual: ({ token }, { softhsm }) => (token === 'softhsm' ? softhsm : undefined),
    objection: ({ token_library }) => (existsSync(token_library) ? undefined : 'is not on this host'),
  },
  {
    key: 'token_label',
    text: 'Label of the token',
    about: 'As it was initialized; a token of SoftHSM is made with this label.',
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
    when: (answers, facts) => madeHere(answers, facts) && !isThere(facts, `${PLACES.rootCa}/issuer.pem`),
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
    mayFollow: true,
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
