// A tool server that keeps a ledger: each call adds a line to a file before it is answered. What
// the file holds is what happened in the world.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

// The tools of the desk; each acts on one order.
export const tools = {
	look_up: 'Look an order up',
	add_note: 'Add a note to an order',
	close_order: 'Close an order',
	delete_order: 'Delete an order for good',
};

export class Ledger {
	constructor(file) {
		this.file = file;
		writeFileSync(file, '');
	}

	add(tool, order) {
		appendFileSync(this.file, `${tool} ${order}\n`);
		return `${tool} of ${order} is done`;
	}

	// of are the effects on an order.
	of(order) {
		return readFileSync(this.file, 'utf8').split('\n').filter((line) => line.endsWith(` ${order}`)).map((line) => line.split(' ')[0]);
	}
}

export class Desk {
	#server;

	constructor(ledger) {
		this.ledger = ledger;
	}

	async open() {
		this.#server = createServer(async (request, response) => {
			const mcp = new McpServer({ name: 'desk', version: '1' });
			for (const [name, description] of Object.entries(tools)) {
				mcp.registerTool(name, { description, inputSchema: { order: z.string() } }, async ({ order }) => ({ content: [{ type: 'text', text: this.ledger.add(name, order) }] }));
			}
			const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
			response.on('close', () => mcp.close());
			await mcp.connect(transport);
			await transport.handleRequest(request, response);
		});
		await new Promise((done) => this.#server.listen(0, '127.0.0.1', done));
		return `http://127.0.0.1:${this.#server.address().port}/mcp`;
	}

	close() {
		this.#server.closeAllConnections();
		this.#server.close();
	}
}
