/** Shares one event stream among the pages of a browser, which may open only a few connections to a host. */

export type StreamMessage =
  | { readonly kind: 'open' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'snapshot'; readonly text: string };

/** Delay after a response that is no stream, such as 503; the browser itself resumes interrupted streams. */
const RETRY_MS = 2_000;

/** The part of a SharedWorker's global scope that is used here. */
interface WorkerScope {
  onconnect: ((event: MessageEvent) => void) | null;
}

const ports = new Set<MessagePort>();
let source: EventSource | undefined;
let last: StreamMessage | undefined;
let address = '';

const broadcast = (message: StreamMessage): void => {
  last = message;
  for (const port of ports) port.postMessage(message);
};

function open(): void {
  if (source || ports.size === 0) return;
  const opened = new EventSource(address);
  source = opened;
  opened.onopen = () => broadcast({ kind: 'open' });
  opened.onmessage = ({ data }) => broadcast({ kind: 'snapshot', text: data });
  opened.onerror = () => {
    broadcast({ kind: 'lost' });
    if (opened.readyState !== EventSource.CLOSED) return;
    source = undefined;
    setTimeout(open, RETRY_MS);
  };
}

(globalThis as unknown as WorkerScope).onconnect = ({ ports: [port] }) => {
  if (!port) return;
  port.onmessage = ({ data }: MessageEvent<'bye' | { readonly url: string }>) => {
    if (data === 'bye') {
      ports.delete(port);
      if (ports.size > 0) return;
      source?.close();
      source = undefined;
      last = undefined;
      return;
    }
    address = data.url;
    ports.add(port);
    if (last) port.postMessage(last);
    open();
  };
};
