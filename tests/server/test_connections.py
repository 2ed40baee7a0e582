"""Which connections of a server are closed when it has lost requests, on a real process that serves two clients."""

import os
import select
import socket
import subprocess
import sys
import time

import pytest
from trireme_server.connections import CannotBorrow, can_borrow, close_silent, open_connections
from trireme_server.lost_requests import LostRequests
from trireme_server.processes import Processes

# answers every line in capitals
SERVER = """
import socketserver
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line.upper())
socketserver.ThreadingTCPServer.daemon_threads = True
with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    for line in sys.stdin:
        try:
            connection.sendall(line.encode())
            answer = connection.recv(100).decode()
        except OSError:
            break
        if not answer:
            break
        print(answer, end="", flush=True)
"""


@pytest.fixture
def server():
    """(process, port)"""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as process:
        yield process, int(process.stdout.readline())
        process.kill()


@pytest.fixture
def clients(server):
    """Two clients in processes of their own, each connected and answered once."""
    command = [sys.executable, "-c", CLIENT, str(server[1])]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for client in started:
        assert ask(client, "oars") == "OARS"
    yield started
    for client in started:
        client.kill()
        client.wait()
        client.stdin.close()
        client.stdout.close()


def ask(client, text):
    """The answer; empty when the connection was closed."""
    client.stdin.write(f"{text}\n")
    client.stdin.flush()
    return client.stdout.readline().strip()


def test_this_machine_lets_the_launcher_use_the_servers_sockets():
    assert can_borrow()


def test_the_launchers_own_connections_are_not_those_of_clients(server, clients):
    process, port = server
    with socket.create_connection(("127.0.0.1", port)) as own:
        own.sendall(b"mine\n")
        assert own.recv(10) == b"MINE\n"
        assert len(open_connections(Processes(), process.pid, {port})) == 2


def test_a_connection_on_which_the_server_has_been_silent_is_closed_and_the_other_is_not(server, clients):
    process, port = server
    connections = open_connections(Processes(), process.pid, {port})
    time.sleep(1.5)
    silent, active = clients
    assert ask(active, "row") == "ROW"
    closed = close_silent(Processes(), process.pid, connections, silent_s=1.0, multiplexed_port=0)
    assert closed == 1
    assert ask(active, "row") == "ROW"
    assert ask(silent, "row") == ""


def test_where_a_connection_carries_many_requests_its_traffic_proves_nothing(server, clients):
    process, port = server
    connections = open_connections(Processes(), process.pid, {port})
    assert close_silent(Processes(), process.pid, connections, silent_s=3600, multiplexed_port=port) == 2
    for client in clients:
        assert ask(client, "row") == ""


def test_a_client_that_connects_later_is_left_alone(server, clients):
    process, port = server
    connections = open_connections(Processes(), process.pid, {port})
    late = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with late:
        assert ask(late, "oars") == "OARS"
        close_silent(Processes(), process.pid, connections, silent_s=0.0, multiplexed_port=0)
        assert ask(late, "oars") == "OARS"


def test_a_server_that_has_gone_has_no_connections(server):
    process, port = server
    process.kill()
    process.wait()
    assert open_connections(Processes(), process.pid, {port}) == []


def test_nothing_is_closed_when_the_generation_has_gone_by_itself(tmp_path):
    lost = LostRequests(Processes(), 1, tmp_path)
    lost.expect(["region"], None, unloaded_at=0.0)
    assert lost.close_due(os.getpid(), now=10.0) == 0


def test_a_generation_that_stays_is_given_time_and_then_its_connections_are_closed(tmp_path, server, clients):
    process, port = server
    (tmp_path / "region").touch()
    lost = LostRequests(Processes(), port, tmp_path)
    lost.expect(["region"], open_connections(Processes(), process.pid, {port}), unloaded_at=0.0)
    assert lost.close_due(process.pid, now=1.0) == 0
    assert lost.close_due(process.pid, now=4.0) == 2
    assert lost.close_due(process.pid, now=5.0) == 0
    readable, _, _ = select.select([client.stdout for client in clients], [], [], 0)
    assert not readable


def test_while_another_stub_of_the_generation_answers_nothing_is_closed(tmp_path, server, clients):
    process, port = server
    (tmp_path / "region").touch()
    others = [True]
    lost = LostRequests(Processes(), port, tmp_path)
    lost.expect(["region"], open_connections(Processes(), process.pid, {port}), 0.0, lambda: others[0])
    assert lost.close_due(process.pid, now=10.0) == 0
    others[0] = False
    assert lost.close_due(process.pid, now=20.0) == 2


def test_where_connections_cannot_be_seen_that_is_said_when_it_matters(tmp_path):
    (tmp_path / "region").touch()
    lost = LostRequests(Processes(), 1, tmp_path)
    lost.expect(["region"], None, unloaded_at=0.0)
    with pytest.raises(CannotBorrow):
        lost.close_due(os.getpid(), now=10.0)
