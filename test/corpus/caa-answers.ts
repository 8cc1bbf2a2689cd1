/**
 * CAA records as owners of domains, their web forms and name servers write them: name, who writes it, whether Boulder issues for
 * `ca.example`, the data of the records (RFC 8659 §4.1), and what our refusal says.
 *
 * Boulder is `filterCAA`, `validateCAA` and what they call in its va/caa.go of August 2026, behind miekg/dns 1.1.50 of Go 1.19.8, asked
 * by hand. Where the verdicts differ, the reason is beside the row.
 */

export type CaaRow = readonly [
  name: string,
  from: string,
  boulder: boolean,
  records: readonly Buffer[],
  refusal?: string,
]

export const ACCOUNT = 'https://ca.example/acct/1'
export const METHOD = 'dns-01'

const property = (flags: number, tag: string, value: string): Buffer =>
  Buffer.concat([Buffer.of(flags, tag.length), Buffer.from(tag, 'latin1'), Buffer.from(value, 'utf8')])
const issue = (value: string): Buffer => property(0, 'issue', value)
const OURS = issue('ca.example')

const OTHER = 'do not name this server'
const MALFORMED = 'malformed'
const UNKNOWN = 'a critical property'

export const CAA_ANSWERS: readonly CaaRow[] = [
  ['exact', 'most', true, [OURS]],
  ['another issuer', 'most', false, [issue('other.example')], OTHER],
  ['ours twice', 'web forms', true, [OURS, OURS]],

  // RFC 8659 §4.1: the case of a tag does not matter. An issuer is a domain name, whose case does not matter, either.
  ['a tag in upper case', 'Windows DNS', true, [property(0, 'ISSUE', 'ca.example')]],
  ['another issuer by a tag in upper case', 'Windows DNS', false, [property(0, 'Issue', 'other.example')], OTHER],
  ['the issuer in upper case', 'web forms', false, [issue('CA.Example')]],
  // RFC 8659 §4.1: a tag is letters and digits; others are unknown, and ignored unless critical (§4.5).
  ['a tag with a hyphen beside ours', 'nobody known', true, [property(0, 'issue-mail', 'other.example'), OURS]],
  ['a tag with a hyphen alone', 'nobody known', true, [property(0, 'issue-mail', 'other.example')]],
  ['a tag with a blank behind', 'scripts', true, [property(0, 'issue ', 'other.example')]],
  ['a critical tag with a hyphen', 'nobody known', false, [property(128, 'issue-mail', ';'), OURS], UNKNOWN],
  ['an unknown critical tag', 'CAA generators', false, [property(128, 'tbs', 'Unknown'), OURS], UNKNOWN],
  ['an unknown critical tag in upper case', 'Windows DNS', false, [property(128, 'TBS', ''), OURS], UNKNOWN],
  ['an unknown tag without a value', 'nobody known', true, [property(0, 'tbs', ''), OURS]],
  // RFC 8659 §4.1: the critical flag is 128. Boulder takes 1 for critical, too, since owners confuse them.
  ['flags 1 of an unknown tag', 'owners who misread RFC 6844', false, [property(1, 'tbs', 'Unknown'), OURS]],
  ['flags 1 of issue', 'owners who misread RFC 6844', true, [property(1, 'issue', 'ca.example')]],
  ['all flags of issue', 'scripts', true, [property(255, 'issue', 'ca.example')]],
  ['a critical iodef', 'CAA generators', true, [property(128, 'iodef', 'mailto:a@example.org'), OURS]],
  ['an iodef in UTF-8', 'web forms', true, [property(0, 'iodef', 'mailto:ü@example.org'), OURS]],
  ['contactemail alone', 'owners', true, [property(0, 'contactemail', 'a@example.org')]],
  // Properties about certificates of other kinds (RFC 9495 §3; issuevmc of IANA's registry: brand marks).
  ['a critical issuemail', 'CAA generators', true, [property(128, 'issuemail', ';'), OURS]],
  ['a critical issuevmc', 'CAA generators', true, [property(128, 'issuevmc', ';'), OURS]],
  ['issuewild alone', 'owners', true, [property(0, 'issuewild', ';')]],

  ['an empty value', 'web forms', false, [issue('')], OTHER],
  ['a semicolon', 'most', false, [issue(';')], OTHER],
  ['a semicolon in quotes', 'web forms', false, [issue('";"')], OTHER],
  ['quotes typed into the value', 'web forms', false, [issue('"ca.example"')], OTHER],
  ['blanks around the issuer', 'web forms', true, [issue(' \tca.example ')]],
  // RFC 8659 §4.2 has no white space but blank and tab, no final dot, and no URL.
  ['a line feed behind the issuer', 'web forms', false, [issue('ca.example\n')], OTHER],
  ['NUL behind the issuer', 'C programs', false, [issue('ca.example\0')], OTHER],
  ['a final dot', 'zone files', false, [issue('ca.example.')], OTHER],
  ['a URL', 'web forms', false, [issue('https://ca.example')], OTHER],
  ['two issuers in one value', 'web forms', false, [issue('ca.example other.example')], OTHER],

  ['a semicolon behind the issuer', 'CAA generators', true, [issue('ca.example;')]],
  ['a semicolon and blanks behind', 'CAA generators', true, [issue('ca.example ; ')]],
  ['white space around parameters', 'owners', true, [issue(`ca.example ;\tvalidationmethods\t=  ${METHOD} ; a = b `)]],
  ['no white space', 'owners', true, [issue(`ca.example;accounturi=${ACCOUNT};validationmethods=${METHOD}`)]],
  ['a parameter without a value', 'owners', true, [issue('ca.example; policy=')]],
  // RFC 8659 §4.2: tag = (ALPHA / DIGIT) *( *("-") (ALPHA / DIGIT)). Boulder's copy of that has no hyphen.
  ['a parameter whose tag has a hyphen', 'other CAs', false, [issue('ca.example; cansign-http=yes')]],
  ['a parameter whose tag begins with a hyphen', 'scripts', false, [issue('ca.example; -a=b')], MALFORMED],
  ['an equals sign in a value', 'owners', true, [issue('ca.example; account=a=b')]],
  ['a semicolon behind the last parameter', 'web forms', false, [issue('ca.example; a=b;')], MALFORMED],
  ['a parameter without an equals sign', 'web forms', false, [issue('ca.example; policy')], MALFORMED],
  [
    'white space in a list of methods',
    'owners',
    false,
    [issue('ca.example; validationmethods=http-01, dns-01')],
    MALFORMED,
  ],
  ['quotes around a value', 'owners', false, [issue(`ca.example; accounturi="${ACCOUNT}"`)], 'another account'],
  ['commas between parameters', 'owners', false, [issue(`ca.example, accounturi=${ACCOUNT}`)], OTHER],
  // RFC 8657 §3 and §4 bind; a tag in another case must not bind less.
  ['another account, the tag in upper case', 'owners', true, [issue('ca.example; AccountURI=x:y')], 'another account'],
  [
    'the account twice',
    'scripts',
    false,
    [issue(`ca.example; accounturi=x:y; accounturi=${ACCOUNT}`)],
    'another account',
  ],
  ['an empty list of methods', 'owners', false, [issue('ca.example; validationmethods=')], 'validation method'],
  ['a method in upper case', 'owners', false, [issue('ca.example; validationmethods=DNS-01')], 'validation method'],

  // RFC 8659 §4.1: a tag has at least one octet. What cannot be read may forbid; Go reads a record that ends early.
  ['an empty tag', 'attackers', true, [Buffer.of(0, 0), OURS], 'malformed answer'],
  [
    'a tag longer than its record',
    'attackers',
    false,
    [Buffer.from('\0\xffissue', 'latin1'), OURS],
    'malformed answer',
  ],
  ['flags alone', 'attackers', true, [Buffer.of(0), OURS], 'malformed answer'],
]
