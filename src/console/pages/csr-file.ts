/** A certification request from a file or a text field, as the Admin API takes it. Pure. */

/** The limit of the Admin API, in characters of base64. */
const MOST_CHARACTERS = 65_536
const PEM = /-----BEGIN (?:NEW )?CERTIFICATE REQUEST-----([^-]+)-----END (?:NEW )?CERTIFICATE REQUEST-----/
const OTHER_PEM = /-----BEGIN ([^-]+)-----/

export type ReadCsr = { ok: true; csr: string } | { ok: false; message: string }

export function readCsrText(text: string): ReadCsr {
  const pem = PEM.exec(text)?.[1]
  const other = OTHER_PEM.exec(text)?.[1]
  if (pem === undefined && other !== undefined)
    return {
      ok: false,
      message: other.includes('KEY') ? PRIVATE_KEY : `This is a ${other.toLowerCase()}, not a request.`,
    }
  const csr = (pem ?? text).replaceAll(/\s/g, '')
  if (csr === '') return { ok: false, message: 'There is no request in it.' }
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(csr)) return { ok: false, message: 'It is neither PEM nor base64.' }
  return bounded(csr)
}

const PRIVATE_KEY = 'This is a key. Keep it to yourself; drop the certification request instead.'

/** PEM or DER. */
export function readCsrFile(bytes: Uint8Array): ReadCsr {
  const isDer = bytes[0] === 0x30
  if (!isDer) return readCsrText(new TextDecoder().decode(bytes))
  // In pieces: so many arguments at once overflow the stack.
  const pieces = Array.from({ length: Math.ceil(bytes.length / 8_192) }, (_, index) =>
    String.fromCharCode(...bytes.subarray(index * 8_192, (index + 1) * 8_192)),
  )
  return bounded(btoa(pieces.join('')))
}

function bounded(csr: string): ReadCsr {
  return csr.length <= MOST_CHARACTERS ? { ok: true, csr } : { ok: false, message: 'It is longer than any request.' }
}
