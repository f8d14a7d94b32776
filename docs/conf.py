"""Configuration of the site: ``make docs`` builds it from the pages in this folder."""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for tools.docs_site

import matplotlib
import matplotlib.pyplot as plt
from sphinx.application import Sphinx

import kgen
from tools.docs_plots import draw_all
from tools.docs_site import GENERATED, asking_for_a_picture, programs_that_draw

# Examples show their times: threads that spin would wait for each other where other programs run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

project = "kgen"
author = "kgen developers"
project_copyright = "kgen developers"
release = version = kgen.version.VERSION_TEXT

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "tools.docs_site",
]
exclude_patterns = ["_*", "generated/_*"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # headings that begin at the second level: text of examples
nitpicky = False

autodoc_typehints = "none"  # the docstrings say what arguments are
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
default_role = "literal"
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Programs that draw are run, again only when they have changed (make clean: run all).
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/examples",
    "copyfile_regex": r"index\.rst",  # our pages in place of galleries with all programs
    "filename_pattern": rf"/({'|'.join(map(re.escape, programs_that_draw()))})$",
    "reset_argv": f"{asking_for_a_picture.__module__}.{asking_for_a_picture.__name__}",
    "abort_on_example_error": True,
    "backreferences_dir": "generated/_backreferences",
    "doc_module": ("kgen", "harness"),
    "reference_url": {"kgen": None},
    "notebook_extensions": set(),  # they would lack the modules that examples share
    "show_signature": False,
    "write_computation_times": False,
}

html_theme = "furo"
html_title = f"kgen {release}"
html_static_path = ["_static"]
html_css_files = ["kgen.css"]


def reachable(address: str) -> bool:
    """Tell whether the inventory of another site can be fetched now."""
    try:
        with urllib.request.urlopen(f"{address}objects.inv", timeout=5):
            return True
    except OSError:
        return False


# Where there is no network, the site is built without links to other sites; Sphinx would warn.
intersphinx_mapping = {
    name: (address, None)
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "islpy": "https://documen.tician.de/islpy/",
        "pymbolic": "https://documen.tician.de/pymbolic/",
        "pyopencl": "https://documen.tician.de/pyopencl/",
        "pycuda": "https://documen.tician.de/pycuda/",
    }.items()
    if reachable(address)
}


def draw_plots(app: Sphinx) -> None:
    """Draw the tables of benchmarks that ask for it, into what tools.docs_site has generated."""
    matplotlib.use("svg")
    folder = GENERATED / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted((ROOT / "docs").glob("benchmarks*.md")):
        draw_all(page, folder, plt)


def setup(app: Sphinx) -> None:
    """Draw after the extensions have generated their pages."""
    app.connect("builder-inited", draw_plots, priority=900)
