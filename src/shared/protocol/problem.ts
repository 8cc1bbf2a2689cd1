/** ACME problem documents (RFC 8555 §6.7, RFC 7807). Problem types are named only here. */

export const PROBLEMS = {
  accountDoesNotExist: { status: 400 },
  alreadyReplaced: { status: 409 },
  alreadyRevoked: { status: 400 },
  badCSR: { status: 400 },
  badNonce: { status: 400 },
  badPublicKey: { status: 400 },
  badRevocationReason: { status: 400 },
  badSignatureAlgorithm: { status: 400 },
  caa: { status: 403 },
  compound: { status: 400 },
  connection: { status: 400 },
  dns: { status: 400 },
  externalAccountRequired: { status: 400 },
  incorrectResponse: { status: 400 },
  invalidContact: { status: 400 },
  invalidProfile: { status: 400 },
  malformed: { status: 400 },
  orderNotReady: { status: 403 },
  rateLimited: { status: 429 },
  rejectedIdentifier: { status: 400 },
  serverInternal: { status: 500 },
  tls: { status: 400 },
  unauthorized: { status: 403 },
  unsupportedContact: { status: 400 },
  unsupportedIdentifier: { status: 400 },
  userActionRequired: { status: 403 },
} as const satisfies Record<string, { status: number }>

export type ProblemType = keyof typeof PROBLEMS

const PREFIX = 'urn:ietf:params:acme:error:'

/** Identifier of an order or authorization (RFC 8555 §7.1.3); `value` may start with `*.` only inside an order. */
interface ProblemIdentifier {
  type: string
  value: string
}

export interface Subproblem {
  type: ProblemType
  detail: string
  /** Absent where the subproblem concerns the request as a whole (RFC 8555 §6.7.1). */
  identifier?: ProblemIdentifier
}

/** The wire form of a problem, also stored as the error of an order or challenge. */
export interface ProblemDocument {
  type: string
  detail: string
  status: number
  subproblems?: { type: string; detail: string; identifier?: ProblemIdentifier }[]
  algorithms?: readonly string[]
  instance?: string
}

export interface ProblemOptions {
  /** For the log only; a client never sees it. */
  cause?: unknown
  /** Replaces the status of the table, for types to which the specification gives several. */
  status?: number
  /** Seconds; becomes the Retry-After header. */
  retryAfterSeconds?: number
  subproblems?: readonly Subproblem[]
  /** RFC 8555 §6.2: algorithms to use instead, for badSignatureAlgorithm. */
  algorithms?: readonly string[]
  /** Key of the configuration that would allow it, for the log. */
  key?: string
  /** RFC 8555 §7.3.3: a page for the user about userActionRequired. */
  instance?: string
  /** Absolute URL; becomes the Location header (key in use, RFC 8555 §7.3.5; order not ready). */
  location?: string
  /** Further Link header values, such as the terms of service of userActionRequired. */
  links?: readonly string[]
  /** Becomes the Allow header of a 405. */
  allow?: readonly string[]
  /** The refused identifiers, for events; a client reads them in the detail or the subproblems. */
  refused?: readonly ProblemIdentifier[]
  /** Events show what an order asked for that was refused as a whole. */
  attempted?: readonly ProblemIdentifier[]
}

/** The only way for a handler to refuse. `detail` is for the reader of a client's log. */
export class Problem extends Error {
  readonly type: ProblemType
  readonly status: number
  readonly options: ProblemOptions

  constructor(type: ProblemType, detail: string, options: ProblemOptions = {}) {
    super(detail, { cause: options.cause })
    this.name = 'Problem'
    this.type = type
    this.status = options.status ?? PROBLEMS[type].status
    this.options = options
  }

  /** The same refusal, with the identifiers of the order. */
  ofOrderFor(attempted: readonly ProblemIdentifier[]): Problem {
    return new Problem(this.type, this.message, { ...this.options, status: this.status, attempted })
  }

  toJSON(): ProblemDocument {
    return problemDocument(this.type, this.message, this.status, this.options)
  }
}

/** The document for the client, without `cause`. */
export function problemDocument(
  type: ProblemType,
  detail: string,
  status: number = PROBLEMS[type].status,
  options: Pick<ProblemOptions, 'subproblems' | 'algorithms' | 'instance'> = {},
): ProblemDocument {
  return {
    type: PREFIX + type,
    detail,
    status,
    ...(options.subproblems && {
      subproblems: options.subproblems.map((sub) => ({ ...sub, type: PREFIX + sub.type })),
    }),
    ...(options.algorithms && { algorithms: options.algorithms }),
    ...(options.instance !== undefined && { instance: options.instance }),
  }
}
