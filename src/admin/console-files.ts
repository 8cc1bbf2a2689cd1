/**
 * Serves the console: the files of `dist/console` from memory, below `{base path}/console/`.
 *
 * Names with a hash never change and are cached for good; `index.html` is asked for again each time.
 */

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { Logger } from 'pino'
import type { Environment } from '../domain/administrator.ts'
import type { Header } from '../http/http-message.ts'
import { INSTALLATION } from '../shared/lib/program-files.ts'
import { sharedBytes } from '../shared/lib/shared-memory.ts'
import type { AdminReply, AdminRequest } from './admin-message.ts'

interface ConsoleFile {
  headers: readonly Header[]
  etag: string
  /** By content coding; `identity` is always there. */
  bodies: Readonly<Record<string, Uint8Array>>
}

type FileRequest = Pick<AdminRequest, 'method' | 'path' | 'acceptEncoding' | 'ifNoneMatch'>

const PREFIX = '/console'
const PAGE = '/index.html'
const RESOURCE = 'admin console'
const CODINGS = { br: '.br', gzip: '.gz' } as const

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
}

/** Own files and the Admin API beside them; no inline script or style, and no markup from strings. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ')

export class ConsoleFiles {
  readonly #files: Map<string, ConsoleFile>

  /** @throws Error when the folder cannot be read */
  constructor(folder: string, environment: Environment | null = null) {
    const names = readdirSync(folder).filter((name) => path.extname(name) in TYPES)
    this.#files = new Map(names.map((name) => [`/${name}`, readConsoleFile(folder, name)]))
    if (environment) this.#files.set(PAGE, consoleFile(PAGE, pageOf(folder, names, environment)))
  }

  /** @returns undefined for what is no file of the console */
  answer({ method, path, acceptEncoding, ifNoneMatch }: FileRequest): AdminReply | undefined {
    if (!path.startsWith(PREFIX) || (method !== 'GET' && method !== 'HEAD')) return undefined
    // Relative, since a proxy may know the service by another path.
    if (path === PREFIX) return redirectTo('console/')
    const name = path.slice(PREFIX.length)
    const file = this.#files.get(name === '/' ? PAGE : name)
    if (!file) return undefined
    const { headers, etag, bodies } = file
    if (ifNoneMatch?.includes(etag)) return { status: 304, headers: [...headers], body: '', resource: RESOURCE }
    const coding = Object.keys(CODINGS).find((one) => one in bodies && accepts(acceptEncoding, one))
    const octets = bodies[coding ?? 'identity'] as Uint8Array
    const encoded: Header[] = coding === undefined ? [] : [['Content-Encoding', coding]]
    return { status: 200, headers: [...headers, ...encoded], body: '', octets, resource: RESOURCE }
  }
}

const redirectTo = (location: string): AdminReply => ({
  status: 308,
  body: '',
  resource: RESOURCE,
  headers: [['Location', location]],
})

function readConsoleFile(folder: string, name: string): ConsoleFile {
  const packed = Object.entries(CODINGS).flatMap(([coding, ending]) => {
    const body = readIfPresent(path.join(folder, name + ending))
    return body ? [[coding, body] as const] : []
  })
  return consoleFile(name, readFileSync(path.join(folder, name)), Object.fromEntries(packed))
}

/** @param packed the same bytes by content coding */
function consoleFile(name: string, bytes: Uint8Array, packed: Record<string, Uint8Array> = {}): ConsoleFile {
  const identity = sharedBytes(bytes)
  const etag = `W/"${createHash('sha256').update(identity).digest('base64url').slice(0, 22)}"`
  const isHashed = /\.[A-Z0-9]{8}\.\w+$/.test(name)
  const headers: Header[] = [
    ['Content-Type', TYPES[path.extname(name)] as string],
    ['Cache-Control', isHashed ? 'public, max-age=31536000, immutable' : 'no-cache'],
    ['ETag', etag],
    ['Vary', 'Accept-Encoding'],
    ['Content-Security-Policy', POLICY],
    ['Cross-Origin-Opener-Policy', 'same-origin'],
    ['Referrer-Policy', 'no-referrer'],
  ]
  return { headers, etag, bodies: { identity, ...packed } }
}

/** The page with the environment's name and the icon in its colour, also before anybody has signed in. */
function pageOf(folder: string, names: readonly string[], { name, color }: Environment): Uint8Array {
  const icon = names.find((file) => file.startsWith(`icon-${color}.`))
  const html = readFileSync(path.join(folder, 'index.html'), 'utf8')
    // A function: in a text, `$&` would stand for what was found.
    .replace('<html', () => `<html data-environment="${escapeHtml(name)}" data-color="${color}"`)
    .replace(/icon\.[A-Z0-9]{8}\.svg/, icon ?? '$&')
  return Buffer.from(html)
}

const escapeHtml = (text: string) => text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)

function readIfPresent(file: string): Uint8Array | undefined {
  try {
    return sharedBytes(readFileSync(file))
  } catch {
    return undefined
  }
}

/** `q=0` refuses a coding (RFC 9110 §12.4.2); preferences among those that are left do not count. */
function accepts(header: string | undefined, coding: string): boolean {
  const offers = (header ?? '').toLowerCase().split(',')
  const own = offers.map((offer) => offer.trim().split(/\s*;\s*/)).find(([name]) => name === coding)
  return own !== undefined && !own.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))
}

/** Below `dist`, beside the compiled code. */
const CONSOLE_FOLDER = path.join(INSTALLATION, 'dist/console')

/** The Admin API does without the page. */
export function readConsole(log: Logger, environment: Environment | null): ConsoleFiles | undefined {
  try {
    return new ConsoleFiles(CONSOLE_FOLDER, environment)
  } catch (error) {
    log.warn({ event: 'console_missing', err: error }, 'the console was not built; build it with: npm run build')
    return undefined
  }
}
