"""What is compared: fetched and built below the build folder, never kept in the repository."""

import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent


class Skip(Exception):
    """A peer that cannot run here, and why."""


def cloudsimplus(build: pathlib.Path) -> list[str]:
    """The command that runs CloudSim Plus, up to the arguments of Placement.java."""
    source = HERE / "cloudsimplus"
    for program, package in (("java", "openjdk-17-jre-headless"), ("javac", "openjdk-17-jdk-headless"), ("mvn", "maven")):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed: type 'sudo apt-get install {package}'")
    lib, classes = (build / "cloudsimplus" / it for it in ("lib", "classes"))
    if not list(lib.glob("cloudsim-plus-*.jar")):
        fetch = ["mvn", "--batch-mode", "--quiet", "--file", str(source / "pom.xml"), "dependency:copy-dependencies",
                 f"-DoutputDirectory={lib.resolve()}"]
        step(fetch, "Maven could not fetch CloudSim Plus")
    classes.mkdir(parents=True, exist_ok=True)
    step(["javac", "-nowarn", "-d", str(classes), "-cp", f"{lib}/*", str(source / "Placement.java")],
         "javac does not compile Placement.java")
    return ["java", "-cp", f"{classes}:{lib}/*", "Placement"]


def step(command: list[str], otherwise: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [it for it in (done.stdout + done.stderr).splitlines() if it.strip()]
        raise Skip(f"{otherwise}: {lines[0] if lines else 'it says nothing'}")
