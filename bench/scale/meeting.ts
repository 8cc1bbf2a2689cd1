/** Where several that run at once wait for each other. */

export interface MeetingPoint {
  /** @returns when as many have come as were expected, or it was opened. */
  arrive(): Promise<void>
  /** Lets everyone go, since somebody will not come. */
  open(): void
}

export function meetingPoint(expected: number): MeetingPoint {
  let missing = expected
  let open: () => void = () => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return {
    arrive() {
      missing--
      if (missing === 0) open()
      return opened
    },
    open,
  }
}
