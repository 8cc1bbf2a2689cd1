/** The words of a command line, as a template; a value is one word, or a list of several. */
export function words(texts: TemplateStringsArray, ...values: (string | readonly string[])[]): string[] {
  return texts.flatMap((text, index) => [...text.split(/\s+/).filter(Boolean), ...[values[index] ?? []].flat()])
}
