/**
 * Like `fetch`, for large bodies. Only `XMLHttpRequest` reports how much of a body has been sent.
 * @param onSent is called repeatedly with the fraction of the body that has been sent
 * @throws TypeError if no reply comes, and the signal's reason when the signal aborts, as `fetch` does
 */
export function fetchWatched(
  address: URL,
  { method = 'POST', headers, body, signal }: WatchedRequest,
  onSent: (fraction: number) => void,
): Promise<Response> {
  const { promise, resolve, reject } = Promise.withResolvers<Response>()
  const request = new XMLHttpRequest()
  request.open(method, address)
  request.responseType = 'blob'
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value)
  request.upload.onprogress = ({ loaded, total }) => onSent(total === 0 ? 1 : loaded / total)
  request.onload = () => resolve(responseOf(request))
  request.onerror = () => reject(new TypeError('There is no reply.'))
  request.onabort = () => reject(signal?.reason)
  signal?.addEventListener('abort', () => request.abort(), { once: true })
  if (signal?.aborted) reject(signal.reason)
  else request.send(body)
  return promise
}

/** A request of `fetchWatched`. */
export interface WatchedRequest {
  readonly method?: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Blob
  readonly signal?: AbortSignal | undefined
}

function responseOf(request: XMLHttpRequest): Response {
  const headers = new Headers()
  for (const line of request.getAllResponseHeaders().trim().split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  // `Response` refuses a body for the status 204, even an empty one.
  return new Response(request.status === 204 ? null : request.response, { status: request.status, headers })
}
