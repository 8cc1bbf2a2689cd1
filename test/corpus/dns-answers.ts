/**
 * Answers to the TXT question of dns-01 as name servers and their users write them: name, who writes it, whether Go finds the digest
 * in it, the message for a query, and what our refusal says.
 *
 * Go is miekg/dns 1.1.50 of Go 1.19.8, asked by hand: `Msg.Unpack`, and the strings of each TXT record of the answer joined.
 */

import dnsPacket from 'dns-packet'
import { a, cname, encodeReply, NXDOMAIN, ns, type Reply, soa, txt } from '../workers/scripted-dns.ts'
import { DIGEST, RECORD } from '../workers/scripted-txt.ts'

export type DnsRow = readonly [
  name: string,
  from: string,
  go: boolean,
  message: (query: dnsPacket.DecodedPacket, transport: 'udp' | 'tcp') => Buffer,
  refusal?: string,
]

const reply = (content: Reply) => (query: dnsPacket.DecodedPacket) => encodeReply(query, content)
const answers = (...records: dnsPacket.Answer[]) => reply({ answers: records })
const RIGHT = txt(RECORD, DIGEST)
const ALIAS = 'a.acme.example'

/** A TXT record whose owner is a pointer to the question (RFC 1035 §4.1.4), with these octets as its data. */
const pointed =
  (data: Buffer, pointer = 0xc00c) =>
  (query: dnsPacket.DecodedPacket) => {
    const message = encodeReply(query, {})
    message.writeUInt16BE(1, 6)
    const record = Buffer.alloc(12)
    record.writeUInt16BE(pointer, 0)
    record.writeUInt16BE(16, 2)
    record.writeUInt16BE(1, 4)
    record.writeUInt16BE(data.length, 10)
    return Buffer.concat([message, record, data])
  }
const TRUNCATED: Reply = { answers: [RIGHT], flags: dnsPacket.TRUNCATED_RESPONSE }
const inLowerCase = (message: dnsPacket.Packet) => {
  message.questions = message.questions?.map((question) => ({ ...question, name: question.name.toLowerCase() })) ?? []
}
const withoutQuestion = (message: dnsPacket.Packet) => {
  message.questions = []
}
const another = (message: dnsPacket.Packet) => {
  message.questions = [{ type: 'TXT', name: 'other.example' }]
}
const twice = (message: dnsPacket.Packet) => {
  message.questions = [...(message.questions ?? []), ...(message.questions ?? [])]
}
/** Only over TCP: over UDP such a message is ignored until the time is over. */
const overTcp =
  (message: DnsRow[3]): DnsRow[3] =>
  (query, transport) =>
    transport === 'udp' ? encodeReply(query, TRUNCATED) : message(query, transport)
const STRING = Buffer.concat([Buffer.of(DIGEST.length), Buffer.from(DIGEST)])

const OTHER = 'not the digest'

export const DNS_ANSWERS: readonly DnsRow[] = [
  ['exact, without EDNS and AA', 'resolvers', true, answers(RIGHT)],
  ['AA', 'name servers', true, reply({ answers: [RIGHT], flags: dnsPacket.AUTHORITATIVE_ANSWER })],
  ['several strings', 'web forms of hosters', true, answers(txt(RECORD, DIGEST.slice(0, 20), DIGEST.slice(20)))],
  ['an empty string beside', 'web forms of hosters', true, answers(txt(RECORD, '', DIGEST))],
  ['quotes typed into the value', 'web forms', false, answers(txt(RECORD, `"${DIGEST}"`)), OTHER],
  ['a blank behind', 'web forms', false, answers(txt(RECORD, `${DIGEST} `)), OTHER],
  ['an empty record', 'web forms', false, answers(txt(RECORD, '')), OTHER],
  ['other TXT records beside', 'earlier orders', true, answers(txt(RECORD, 'old'), RIGHT, txt(RECORD, 'v=spf1 -all'))],
  ['unrelated records beside', 'proxies', true, answers(a('other.example', '192.0.2.1'), RIGHT)],
  ['TTL 0', 'dynamic name servers', true, answers({ type: 'TXT', name: RECORD, data: [DIGEST], ttl: 0 })],
  ['TTL above 2^31', 'broken programs', true, answers({ type: 'TXT', name: RECORD, data: [DIGEST], ttl: 2 ** 31 + 1 })],
  ['an owner in upper case', 'old name servers', true, answers(txt(RECORD.toUpperCase(), DIGEST))],
  ['an alias and its target', 'acme-dns', true, answers(cname(RECORD, ALIAS), txt(ALIAS, DIGEST))],
  ['an alias behind its target', 'load balancers', true, answers(txt(ALIAS, DIGEST), cname(RECORD, ALIAS))],
  ['an alias in upper case', 'web forms', true, answers(cname(RECORD, ALIAS.toUpperCase()), txt(ALIAS, DIGEST))],
  ['two aliases', 'acme-dns', true, answers(cname(RECORD, 'b.example'), cname('b.example', ALIAS), txt(ALIAS, DIGEST))],
  ['name servers beside', 'BIND', true, reply({ answers: [RIGHT], authorities: [ns('demo.example', 'ns.example')] })],
  ['a pointer as owner', 'most', true, pointed(STRING)],
  // A pointer leads backwards (RFC 1035 §4.1.4).
  [
    'a pointer to itself',
    'attackers',
    false,
    (query) => pointed(STRING, 0xc000 + encodeReply(query, {}).length)(query),
    'malformed',
  ],
  ['a string longer than its record', 'attackers', false, pointed(STRING.subarray(0, -1)), 'malformed'],
  ['no string at all', 'broken programs', false, pointed(Buffer.alloc(0)), OTHER],
  [
    'bytes behind the message',
    'firewalls',
    true,
    (query) => Buffer.concat([encodeReply(query, { answers: [RIGHT] }), Buffer.alloc(4)]),
  ],
  // Msg.Unpack reads only the message. Whose answer it is, Go's client does not ask beyond the id and the question.
  ['a record of another name alone', 'attackers', true, answers(txt('other.example', DIGEST)), 'another name'],
  // TC sends the question to TCP, and so does another case of letters over UDP.
  [
    'TC over UDP',
    'most',
    true,
    (query, transport) => encodeReply(query, transport === 'udp' ? TRUNCATED : { answers: [RIGHT] }),
  ],
  ['the question in lower case', 'firewalls', true, reply({ answers: [RIGHT], change: inLowerCase })],
  // Without a question an answer counts over TCP (RFC 7766 §7), never over UDP (RFC 5452 §9.1).
  ['no question section', 'load balancers', true, reply({ answers: [RIGHT], change: withoutQuestion })],
  ['another question', 'attackers', true, overTcp(reply({ answers: [RIGHT], change: another })), 'another question'],
  ['two questions', 'attackers', true, overTcp(reply({ answers: [RIGHT], change: twice })), 'another question'],
  ['nothing', 'most', false, reply({ authorities: [soa('demo.example')] }), 'no TXT record'],
  ['nothing, without SOA', 'load balancers', false, reply({}), 'no TXT record'],
  ['NXDOMAIN', 'most', false, reply({ rcode: NXDOMAIN }), 'NXDOMAIN'],
  [
    'NXDOMAIN behind an alias',
    'resolvers',
    false,
    reply({ rcode: NXDOMAIN, answers: [cname(RECORD, ALIAS)] }),
    'NXDOMAIN',
  ],
]
