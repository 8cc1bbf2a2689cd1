/** Refusals between the two ends of the signer protocol, as error classes. */

/** Exit code of the daemon after a token refused its PIN. A parent must not restart the daemon by itself. */
export const PIN_REFUSED_EXIT_CODE = 3

/** The content is out of policy. A repeated request will be refused again. */
export class SignerRefusal extends Error {
  override readonly name = 'SignerRefusal'
}

/** Marks the message of a SignerNameRefusal. A front of the previous release treats it as an ordinary refusal. */
export const NAME_REFUSAL = 'name not allowed: '

/** The structure is right, but this CA does not certify one of its names. */
export class SignerNameRefusal extends SignerRefusal {
  /** Says which name, and why. */
  readonly reason: string

  constructor(reason: string) {
    super(NAME_REFUSAL + reason)
    this.reason = reason
  }
}

/** Busy, draining, away or too late. A repeated request may succeed later. */
export class SignerUnavailable extends Error {
  override readonly name = 'SignerUnavailable'
}

/** The disk is full. The message of SignerUnavailable begins so, and signing continues when there is room. */
export const NO_ROOM = 'audit chain stopped until there is room'

/** The message of a SignerStopping. A service of the previous release takes it for any SignerUnavailable. */
export const SHUTTING_DOWN = 'the signer is shutting down'

/** The request was not begun, and the connection is about to end. */
export class SignerStopping extends SignerUnavailable {
  constructor() {
    super(SHUTTING_DOWN)
  }
}

/** The request was sent and its answer never came, so a signature may exist. */
export class SignerAnswerLost extends SignerUnavailable {}

/** The other end broke the protocol of these files. */
export class SignerProtocolError extends Error {
  override readonly name = 'SignerProtocolError'
}

/** The two ends hold different secrets. Asking again fails until an operator corrects one. */
export class SecretMismatch extends SignerProtocolError {
  constructor() {
    super(
      'the signer does not hold the same secret as this service; compare the files that secret_file names on either side',
    )
  }
}
