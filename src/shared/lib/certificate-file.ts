/** Reads files that an operator names, and the certificates in them. */

import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describeFileError } from './file-error.ts'

const CERTIFICATE = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g

/** @throws Error that names the file */
export function readBytes(file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new Error(`${file}: cannot be read: ${describeFileError(cause)}`, { cause })
  }
}

/** @throws Error that names the file; also where it holds none */
export function readCertificates(file: string): X509Certificate[] {
  const found = certificatesIn(readBytes(file).toString('latin1'), file)
  if (found.length === 0) throw new Error(`${file}: holds no certificate in PEM form`)
  return found
}

/** Text around the blocks is common and allowed. */
export function certificatesIn(pem: string, file: string): X509Certificate[] {
  return (pem.match(CERTIFICATE) ?? []).map((block, index) => {
    try {
      return new X509Certificate(block)
    } catch (cause) {
      throw new Error(`${file}: certificate ${index + 1} in it cannot be parsed`, { cause })
    }
  })
}
