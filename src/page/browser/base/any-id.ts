/** A random id. `crypto.randomUUID` exists only over HTTPS and on localhost. */
export function anyId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}
