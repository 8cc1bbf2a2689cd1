/**
 * PEM text (RFC 7468): written exactly, with 64 characters a line, and read as people and programs
 * write it (docs/decisions/what-strangers-write.md).
 */

import { DerError, DerReader } from './der.ts'

export interface PemBlock {
  label: string
  der: Buffer
}

/** An error that names the block. */
export class PemError extends Error {
  override readonly name = 'PemError'
}

const LINE_CHARACTERS = 64
const BEGIN = /^[^\S\n]*-----BEGIN ([^-\r\n]+)-----/gm
const BOUNDARY = /-----(?:BEGIN|END) [^-\r\n]+-----/g
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Labels of older programs (RFC 7468 §5.1 and §7), and of OpenSSL for one with its trust behind it. */
const OLDER_LABELS: ReadonlyMap<string, string> = new Map([
  ['TRUSTED CERTIFICATE', 'CERTIFICATE'],
  ['X509 CERTIFICATE', 'CERTIFICATE'],
  ['X.509 CERTIFICATE', 'CERTIFICATE'],
  ['NEW CERTIFICATE REQUEST', 'CERTIFICATE REQUEST'],
])

/** One block, with a line end behind it. */
export function encodePem(label: string, der: Buffer): string {
  const base64 = der.toString('base64')
  let lines = ''
  for (let at = 0; at < base64.length; at += LINE_CHARACTERS) lines += `${base64.slice(at, at + LINE_CHARACTERS)}\n`
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`
}

/**
 * All blocks of a text, in order, perhaps none. Text outside of blocks, headers (RFC 1421 §4.6),
 * white space and lines of any length are passed over (RFC 7468 §2, §5.2); blocks may be glued.
 * A boundary counts at the start of a line, so that a block behind `#` is none.
 * @throws PemError for a block without end, or with what is not base64
 */
export function decodePem(text: string): PemBlock[] {
  // OpenSSL and cat both glue files without a last line end: `-----END X----------BEGIN X-----`.
  const lines = text.replaceAll(/(-----END [^-\r\n]+-----)(?=-----BEGIN )/g, '$1\n').replaceAll('\r', '\n')
  const blocks: PemBlock[] = []
  BEGIN.lastIndex = 0
  for (let begin = BEGIN.exec(lines); begin; begin = BEGIN.exec(lines)) {
    const written = begin[1] ?? ''
    const named = `block ${blocks.length + 1}, ${written},`
    BOUNDARY.lastIndex = BEGIN.lastIndex
    const end = BOUNDARY.exec(lines)
    if (end?.[0] !== `-----END ${written}-----`) throw new PemError(`${named} has no END line`)
    const bytes = decodeBody(lines.slice(BEGIN.lastIndex, end.index), named)
    const der = written === 'TRUSTED CERTIFICATE' ? firstValue(bytes, named) : bytes
    blocks.push({ label: OLDER_LABELS.get(written) ?? written, der })
    BEGIN.lastIndex = BOUNDARY.lastIndex
  }
  return blocks
}

/** Whether it looks like PEM rather than DER. */
export function isPem(bytes: Buffer): boolean {
  return bytes.includes('-----BEGIN ')
}

function firstValue(bytes: Buffer, named: string): Buffer {
  try {
    return new DerReader(bytes, 0, bytes.length, 0, false).any()
  } catch (error) {
    throw error instanceof DerError ? new PemError(`${named} has no certificate`) : error
  }
}

function decodeBody(body: string, named: string): Buffer {
  const base64 = body.replaceAll(/^.*:.*$/gm, '').replaceAll(/\s/g, '')
  if (!BASE64.test(base64) || base64.length % 4 !== 0) throw new PemError(`${named} is not base64`)
  return Buffer.from(base64, 'base64')
}
