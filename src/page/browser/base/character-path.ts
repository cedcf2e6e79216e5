/**
 * The path of a character in the service. A browser would treat the names `.` and `..` as folders, even if they are encoded. So
 * these names get a space at the end. The service removes this space.
 */
export function characterPath(name: string): string {
  return `characters/${encodeURIComponent(/^\.\.?$/.test(name) ? `${name} ` : name)}`
}
