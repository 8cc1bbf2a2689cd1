/** Ends a command with sentences for the operator instead of a stack. */
export class CommandError extends Error {}

/** The command line itself is wrong. The exit code is 2 instead of 1. */
export class UsageError extends CommandError {}
